"""The file followed, page by page, for a copy from which another machine can take over.

SQLite writes what a commit has changed as pages into its log, and begins the log anew when all of
it was written back. Only one handle writes and writes back here, and everything that it does goes
by one place (``StoreTurns``). So what is new in the log is read there, each time before anything
can overwrite it, and no second program has to hold the log up, as those do that copy from outside:
they read and write back through a handle of their own, which the versions of SQLite with a fault in
just that (3.7.0 to 3.51.2) do not bear.
"""
