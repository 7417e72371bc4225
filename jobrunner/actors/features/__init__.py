"""Single features around the actors of jobs, one file each.

The kernel (actors, their supervisor, the dispatcher, timers, recovery) stands one folder above.
"""
