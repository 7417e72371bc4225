"""jobrunner: durable jobs on one machine, in one process and one file.

This is the plugin author's door. What is named here is what a workflow is declared with; nothing
else of the package is meant for plugins, and nothing here reaches the store.
"""

from jobrunner.core.ask import Act, Ask, Replay
from jobrunner.core.job import Artifact, Asset, Failure, Snapshot
from jobrunner.core.messages import Report
from jobrunner.core.workflow import (
    ANY,
    EXTERNAL,
    Audit,
    Birth,
    Call,
    Command,
    Deadline,
    Definition,
    Edge,
    Editable,
    Guard,
    JobType,
    Lock,
    Quota,
    Recipe,
    Retry,
    Route,
    State,
    Workflow,
)
from jobrunner.errors import Refused
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

__all__ = [
    "ANY",
    "EXTERNAL",
    "Act",
    "Artifact",
    "Ask",
    "Asset",
    "Audit",
    "AwaitCallback",
    "Birth",
    "Call",
    "Command",
    "Context",
    "Deadline",
    "Definition",
    "Done",
    "Edge",
    "Editable",
    "Failure",
    "Guard",
    "JobType",
    "Lock",
    "Partial",
    "PermanentFailure",
    "Quota",
    "Recipe",
    "Refused",
    "Rejected",
    "Replay",
    "Report",
    "Retry",
    "RetryableFailure",
    "Route",
    "Snapshot",
    "Stage",
    "State",
    "Workflow",
]
