"""One SQLite file, and the only room that knows it is one.

The rules of this room:

1. Nobody else imports ``sqlite3`` or ``aiosqlite``, or writes SQL. What comes in is a ``Unit``
   (data, never a function); what goes out is a struct.
2. A unit is written whole or not at all, and nobody is told of it before COMMIT has returned. A
   unit that cannot be (the job moved on, the key is taken, too few credits) is refused by a
   ``Clash``, which is an answer and not an error.
3. One connection writes and checkpoints. Readers can do neither.
4. A transaction is one function, run in one trip to the thread that owns the handle, and never
   torn by a cancellation.
5. After an error of the disk: full means no, anything else means *nobody knows*, and then nothing
   is written any more.
6. What must never happen is forbidden by the file itself, by constraints and triggers, whatever
   our code believes.

A unit's way: ``compiling`` turns it into rows of ``statements``, ``writer`` puts it in line, and
``batch`` writes everything that waits in one transaction. A question's way: ``reader`` puts it in
line, and a function of ``jobs``, ``listing``, ``gauges``, ``features`` or ``keeping`` selects what
``columns`` makes of the answer's struct. ``opening`` makes sure, before all that, that the file is
ours and set as it must be; ``fsck`` examines it afterwards by the sentences in ``invariants``.

To store a field of a job by which jobs are selected: its column in ``schema``, its name in one of
the lists of ``rows``, its condition in ``listing``.

Deliberately absent: an ORM, a pool, retries of a failed commit, and any opinion about lifecycles.
"""
