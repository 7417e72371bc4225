"""Questions to registered functions, and the answers that they may give.

These are the only shapes that cross between the engine and the functions of a workflow:

    guard(ask, **args)     -> Refused | None
    identity(ask, **args)  -> Replay | Refused | None    a command's repeat, by its own identity
    action(ask, **args)    -> Act | Replay | Refused      what a command's fields mean
    sift(ask, **args)      -> Report                      what of a report still counts
    derive(ask, **args)    -> list                        the parts of a derived key
    read(body)             -> (params, key or None)       may raise Refused
    answer(job, answer, credits) -> dict                  the body of a route of its own

They are pure and total: no clock, no ids, no I/O; everything they may look at is in the ``Ask``.
"""

from typing import Any

from msgspec import Struct

from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import Message, Report, Submit


class Ask(Struct, frozen=True):
    """``job`` is the snapshot as the decision stands so far, with artifacts, assets and results of
    this very request already in it; at birth it is None and ``params`` are the submission's.
    ``before`` is the job as it was when the request came; ``target`` is where a guarded edge leads;
    ``fields`` are a command's."""

    definition: Definition
    job: Snapshot | None
    message: Message | Submit
    actor: Actor
    params: dict[str, Any]
    facts: Facts
    now: int
    report: Report = Report()
    fields: dict[str, Any] = {}
    target: str = ""
    fresh: str = ""
    before: Snapshot | None = None

    @property
    def settings(self) -> dict[str, Any]:
        return self.definition.workflow.settings

    @property
    def snapshot(self) -> Snapshot:
        """The job, where there must be one."""
        assert self.job is not None, "asked about a job that is not born yet"
        return self.job


class Act(Struct, frozen=True):
    """The answer of a command's action. ``path`` overrides the declared walk; ``start`` starts the
    on-demand stage of the state; ``marks`` are merged into the job's marks; ``run`` opens a fresh
    run even where no walk does; ``params`` are merged into the job's parameters."""

    report: Report = Report()
    path: tuple[str, ...] | None = None
    answer: dict[str, Any] = {}
    marks: dict[str, Any] = {}
    status: int = 0
    start: bool = False


class Replay(Struct, frozen=True):
    """The goal was met before: answered, with nothing written."""

    answer: dict[str, Any] = {}
    status: int = 200
    replayed: bool = True
