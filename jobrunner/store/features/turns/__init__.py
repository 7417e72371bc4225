"""The rows of rates, of keys at work, and of limits that were changed."""
