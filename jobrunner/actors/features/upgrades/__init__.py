"""Jobs that move to the declaration of today, and decisions that are kept on record."""
