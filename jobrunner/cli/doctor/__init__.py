"""``doctor``: all that can be wrong on this machine for a service with these settings, in one list.

Each check is a function from the patient to findings. A finding is a line: how bad it is, about
what, what was found, and the cure. The checks of the file, the service and the settings say what
the commands of their own say (``db check``, ``config check``, ``/readyz``): nothing is judged
twice.

Nothing is changed, and nothing has to run: a check that needs what is not there says so.
"""
