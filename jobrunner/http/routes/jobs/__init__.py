"""Jobs: submitted, read, listed, commanded, paused, done again, followed, many at once."""
