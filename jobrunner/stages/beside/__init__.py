"""Beside the stages: things of plugins that are neither a workflow nor its work.

The rules of this folder: nothing of it takes part in a decision or an attempt, so whatever is wrong
with it is refused by name and costs no job anything.
"""
