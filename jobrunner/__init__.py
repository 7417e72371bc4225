"""jobrunner: durable jobs on one machine, in one process and one file.

This module is for authors of plugins. It has all that a workflow is declared with and a stage is
written with; a plugin imports this and ``jobrunner.testing``, and nothing else of the package.
PLUGINS.md shows how.

``@stage("name")`` makes a function a stage. An ``async def`` runs in the service and gets a
``Context``; a plain function runs in a process of its own and gets a ``PlainContext``. A stage
returns ``Done``, ``Partial`` or ``AwaitCallback``, or raises ``RetryableFailure``,
``PermanentFailure`` or ``Rejected``. Anything else that it raises is a bug: a permanent failure.
"""

from jobrunner.core.declaration.artifacts import Listed, Shape
from jobrunner.core.declaration.ask import Act, Ask, Replay
from jobrunner.core.declaration.one_of_a_kind import SingletonBy
from jobrunner.core.declaration.workflow import (
    ANY,
    EXTERNAL,
    Audit,
    Birth,
    Call,
    ChildWorkflow,
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
    Upload,
    Workflow,
)
from jobrunner.core.job import Artifact, Asset, Failure, Snapshot
from jobrunner.core.messages import Report
from jobrunner.errors import PermanentFailure, Refused, Rejected, RetryableFailure
from jobrunner.files.wholeness import cut_short
from jobrunner.outgoing.calls import Fetched, Patience, Reply
from jobrunner.providers import openai_like, replicate_like
from jobrunner.stages import lent_environment
from jobrunner.stages.api import Stage, stage
from jobrunner.stages.beside.panels import Panel
from jobrunner.stages.companions import Companion, Hosting, Opened, companion
from jobrunner.stages.context import Context, PlainContext
from jobrunner.stages.hooks import Hook, HookCall
from jobrunner.stages.one_stage import one_stage
from jobrunner.stages.outcomes import AwaitCallback, Done, Partial
from jobrunner.stages.requests import Held, JobOutcome
from jobrunner.stages.sources import Heard, Source

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
    "ChildWorkflow",
    "Command",
    "Companion",
    "Context",
    "Deadline",
    "Definition",
    "Done",
    "Edge",
    "Editable",
    "Failure",
    "Fetched",
    "Guard",
    "Heard",
    "Held",
    "Hook",
    "HookCall",
    "Hosting",
    "JobOutcome",
    "JobType",
    "Listed",
    "Lock",
    "Opened",
    "Panel",
    "Partial",
    "Patience",
    "PermanentFailure",
    "PlainContext",
    "Quota",
    "Recipe",
    "Refused",
    "Rejected",
    "Replay",
    "Reply",
    "Report",
    "Retry",
    "RetryableFailure",
    "Route",
    "Shape",
    "SingletonBy",
    "Snapshot",
    "Source",
    "Stage",
    "State",
    "Upload",
    "Workflow",
    "companion",
    "cut_short",
    "lent_environment",
    "one_stage",
    "openai_like",
    "replicate_like",
    "stage",
]
