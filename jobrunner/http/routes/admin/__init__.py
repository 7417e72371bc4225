"""Routes for operators: credits, tokens, workflows, notifications, records, health, figures."""
