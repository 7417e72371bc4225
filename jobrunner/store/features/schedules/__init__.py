"""The rows of schedules and of their firings."""
