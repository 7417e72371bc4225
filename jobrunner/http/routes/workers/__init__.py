"""What outside workers and providers say: claims, reports, webhooks."""
