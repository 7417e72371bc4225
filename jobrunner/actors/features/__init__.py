"""What the living part does for single features, one file a feature, around the actors of jobs.

The kernel (actors, their supervisor, the dispatcher, timers, recovery) stands one folder above.
"""
