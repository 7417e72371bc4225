"""Routes for outside workers and providers: claims, status moves, reports, webhooks."""
