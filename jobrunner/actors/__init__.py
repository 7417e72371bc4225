"""The living part: one actor per job that has something to do, and what wakes them.

The rules of this room:

1. Only its actor changes a job (a submission makes one, before there is an actor). Messages wait
   in its mailbox and are taken one at a time: decide, commit, answer, perform, in this order.
2. A job that waits has no actor. The next message or timer loads it from its row; when the mailbox
   is empty the actor is gone. What a job needs to know lives in the tables, never in a task.
3. Effects run after the commit, so each may happen again after a crash, and none happens for a
   decision that is not on disk.
4. Slots, timers and recovery are questions to the tables: who is in line, what is due, which
   attempts died. Memory only says that it is time to ask.

The idea: an actor models what happens at run time (one writer per job, in order), not how code is
arranged. Its module shows its client functions first and hides its messages behind them.

Deliberately absent: SQL, HTTP, and anything a particular lifecycle would need.
"""

from jobrunner.actors.commits import Answer
from jobrunner.actors.facade import Facade
from jobrunner.actors.slots import WorkLimits

__all__ = ["Answer", "Facade", "WorkLimits"]
