"""The rows of upgrades and of decisions on record."""
