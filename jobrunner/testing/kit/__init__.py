"""For authors of plugins: one stage alone, a whole workflow simulated, fixtures for pytest."""
