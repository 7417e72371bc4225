"""What a lifecycle is, and what follows from a message. Nothing here does anything.

The rules of this room:

1. No ``async``, no I/O, no clock, no ids, no randomness, no logging. What is needed of the outside
   comes as an argument: ``Facts`` (what the store knew) and ``Moment`` (now, a fresh id, jitter).
2. A workflow is data (``workflow``). The engine names none: whatever the five shipped lifecycles
   need is either declared by a field or is a registered pure function with arguments.
3. ``decide`` is total. Every pair of a state and a message moves, is a named no-op, or is refused
   with a code. It returns what it decided; it never raises for what a caller did.
4. A Decision is data too: the snapshot before and after, append-only rows, and asserts about
   facts that may have changed meanwhile. Whoever commits it needs no knowledge of lifecycles.

The idea, in one line: *decide first, then commit, then do.* Recovery is not a second code path:
what died with the process is told to the same function as a message called ``Recovered``.

Deliberately absent: SQL, tasks, HTTP words, and any wish to be clever about the order of two
messages. The mailbox of the job's actor settles that before anything arrives here.
"""
