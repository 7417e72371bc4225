"""The core: what a lifecycle is, and what follows from a message. It decides and does nothing.

The rules of this room:

1. No ``async``, no I/O, no clock, no ids, no randomness, no logging. What is needed of the outside
   comes as an argument: ``Facts`` (the store's knowledge) and ``Moment`` (now, a fresh id, jitter).
2. A workflow is data (``declaration``). The engine names none: whatever the shipped lifecycles need
   is either declared by a field or is a registered pure function with arguments.
3. ``decide`` is total. Every pair of a state and a message moves, is a named no-op, or is refused
   with a code. It returns what it decided; it never raises for what a caller did.
4. A ``Decision`` is data too: the snapshot before and after, rows that only grow, and asserts about
   facts that may have changed meanwhile. Whoever commits it needs no knowledge of lifecycles.
5. A step is handed its ``Case`` and its ``Cause``, both frozen, and reads nothing else.

The idea, in one line: *decide first, then commit, then do.* Recovery is not a second code path:
what died with the process is told to the same function as a message called ``Recovered``.

The kernel of this room, in the order of reading:

- ``job``, ``messages``, ``facts``, ``decision``: the snapshot, all that may arrive, all that is
  known of the world then, all that may be decided.
- ``declaration``: the language of lifecycles, and the one place that calls a plugin's functions.
- ``decide``: the table of messages, with the decider and the facts of each.
- ``draft``: a decision under way. ``steps``: taking an edge, and how far the engine goes on.
- ``births``: a submission becomes a job. ``credits``: what an edge costs.
- ``attempts``, ``failures``, ``failed_stage``: executions of a stage, and their failures.
- ``engine_events``, ``timers``, ``waits``: slots, ends, recovery; clocks; what a stage awaits.
- ``status_moves``, ``commands``, ``claims``: what operators, people and workers ask for.
- ``reports``, ``replies``, ``access``: what comes along, what is answered, and to whom.
- ``questions``: what may be asked of the store.

``features`` holds the rest, a file for each: the kernel works without most of them. ``keeping``
holds what concerns the stored file and no job.

Deliberately absent: SQL, tasks, HTTP words, and any wish to be clever about the order of two
messages. The mailbox of the job's actor settles that before anything arrives here.
"""
