"""What operators ask: credits, tokens, workflows, notifications, records, health, figures."""
