"""Turns: the line for slots, rates, and work that is done one at a time."""
