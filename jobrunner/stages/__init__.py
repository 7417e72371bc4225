"""The plugin host: what a stage is, where stages and workflows come from, how one attempt is run.

The rules of this room: nothing here knows the store or the actors; a stage gets a ``Context`` and
gives back an outcome, and whatever else happens in it (an exception, nonsense, silence) becomes an
outcome too, here and nowhere else. The fate of a job is never decided in this room.

The idea: a plugin is a stranger's distribution. It is found by its entry points, refused by name
with a reason when it does not fit, and it can cost one attempt, never the service.

Deliberately absent: retries, time limits and deadlines. They are the lifecycle's business, kept in
the timers table, so that they survive whatever happens to the code that runs here.
"""

from jobrunner.stages.api import (
    AwaitCallback,
    Context,
    Done,
    Partial,
    PermanentFailure,
    Rejected,
    RetryableFailure,
    Stage,
)
from jobrunner.stages.registry import Registry
from jobrunner.stages.runner import run_attempt

__all__ = [
    "AwaitCallback",
    "Context",
    "Done",
    "Partial",
    "PermanentFailure",
    "Registry",
    "Rejected",
    "RetryableFailure",
    "Stage",
    "run_attempt",
]
