"""The nouns of an operator: who may speak, what is paid, told and due, and how much at once.

They go through the admin routes of a running service; those that can, work on the file while it
is down.
"""
