"""A service in a made-up world: time is a number, chance is a seed, and everything goes wrong."""
