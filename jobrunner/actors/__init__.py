"""The living part: one actor per job that has something to do, and what wakes them.

The rules of this room:

1. Only its actor changes a job (a submission makes one). Messages wait for their turn in its
   mailbox and are dealt with one at a time, each in the task that brought it: decide, commit, act,
   answer, in this order.
2. An actor at rest is a snapshot that may be forgotten: the next message or timer loads the job
   from its row. The tables hold everything that a job needs to know; no task does.
3. Consequences begin after the commit, and the commit itself sees to them: whoever asked for it may
   be gone. So each may happen again after a crash, and none happens for a decision that is not on
   disk. ``consequences`` lists everybody who hears of commits.
4. Slots, timers and recovery ask the tables: which jobs are in line, which timers are due, which
   attempts died. Memory only says that it is time to ask.
5. Every commit goes through ``World.commit``. Where it ends without an answer, nobody knows what is
   on disk, and the service ends: only a new start can tell.

The ways through it: callers come in by ``facade``. It asks ``supervisor``, which owns the actors
and forgets what one believed that a bug befell. ``dispatcher`` tells a job to start, ``attempts``
runs its stage, ``attempt_host`` speaks for one stage, and what that did goes to the actor as a
message. ``assembly`` puts the parts together, opens them in order, and drains them at the end.

Deliberately absent: SQL, HTTP, and anything a particular lifecycle would need.
"""

from jobrunner.actors.commits import Answer
from jobrunner.actors.facade import Facade
from jobrunner.actors.slots import WorkLimits
from jobrunner.store.reader import StoreReader

__all__ = ["Answer", "Facade", "StoreReader", "WorkLimits"]
