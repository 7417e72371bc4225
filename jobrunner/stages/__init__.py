"""The plugin host: what a stage is, where stages and workflows come from, how one attempt is run.

The rules of this room:

1. Nothing here knows the store or the actors.
2. A stage gets a context and gives back an outcome. Whatever else happens in it (an exception, a
   wrong answer, silence, its death) becomes an outcome too, in ``outcomes`` and nowhere else.
3. The fate of a job is never decided here.

The idea: a plugin is a stranger's distribution. It is found by its entry points, refused by name
with a reason when it does not fit, and it can cost one attempt, never the service. A stage runs in
one of three ways. In the loop and in a thread it is trusted; in a process it is not: ``launcher``
limits and watches it from beside, and when it is over, or the service is, ends all that it started.

Deliberately absent: retries, time limits and deadlines. They are the lifecycle's business, kept in
the timers table, so that they survive whatever happens to the code that runs here.
"""

from jobrunner.errors import PermanentFailure, Rejected, RetryableFailure
from jobrunner.ports import lent_environment
from jobrunner.stages.api import Stage, stage
from jobrunner.stages.context import Context, PlainContext
from jobrunner.stages.given import Given, Host
from jobrunner.stages.outcomes import AwaitCallback, Done, Partial
from jobrunner.stages.registry import Registry
from jobrunner.stages.run import run_attempt

__all__ = [
    "AwaitCallback",
    "Context",
    "Done",
    "Given",
    "Host",
    "Partial",
    "PermanentFailure",
    "PlainContext",
    "Registry",
    "Rejected",
    "RetryableFailure",
    "Stage",
    "lent_environment",
    "run_attempt",
    "stage",
]
