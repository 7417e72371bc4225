"""HTTP that leaves this machine, for stages and for notifications: guarded, bounded, classed.

The rules of this room: ``rules`` says where a request may lead, before a socket is opened and at
each redirect again; ``gate`` is the one way out; ``exchange``, ``downloads`` and ``posts`` are what
may be done there. Everything has a limit of time and of size. A failure is one of the three kinds
that an attempt knows.

The idea: a URL that somebody else chose is an attack until it has been shown to be none.

Deliberately absent: retries. Whether something is tried again is decided by a job's lifecycle, or
by the schedule of a notification, where it survives the process.
"""
