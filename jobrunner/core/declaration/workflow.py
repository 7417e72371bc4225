"""The declaration of a workflow: states, edges, commands and policies, as data.

Everything in this file is a frozen struct that encodes to JSON, so that a declaration can be
stored by its digest, published over HTTP, drawn, and compared with an older one. Behaviour that
is not expressible as a field (a prompt guard, the freezing of a plan) is a *name with arguments*;
the functions behind the names travel beside the data in a ``Definition``.

Numbers with a time in them end in ``_s`` (seconds). 0 switches a limit off.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import sha256
from itertools import product
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core.declaration.artifacts import Listed, Shape
from jobrunner.core.declaration.happenings import UNASKED, Happening
from jobrunner.core.declaration.offspring import ChildWorkflow
from jobrunner.core.declaration.one_of_a_kind import SingletonBy
from jobrunner.core.declaration.situations import Situation, situation_of
from jobrunner.core.declaration.states import (
    ANY,
    EXTERNAL,
    Audit,
    Call,
    Deadline,
    Declared,
    Edge,
    End,
    Guard,
    Kind,
    Lock,
    Money,
    Retry,
    Role,
    State,
    Trigger,
)

__all__ = [
    "ANY",
    "EXTERNAL",
    "Audit",
    "Birth",
    "Call",
    "ChildWorkflow",
    "Command",
    "Deadline",
    "Declared",
    "Definition",
    "Edge",
    "Editable",
    "End",
    "Guard",
    "JobType",
    "Kind",
    "Lock",
    "Money",
    "Notify",
    "Quota",
    "Recipe",
    "Retry",
    "Role",
    "Route",
    "State",
    "Trigger",
    "Upload",
    "Workflow",
]


class Command(Declared, frozen=True):
    """A named request. ``walks`` maps the states it is allowed in to the path it takes (which may
    be empty); ``satisfied`` lists the states in which its goal is already met.

    identity     a function that recognises a repeat by the command's own identity, before all
    action       a function that adds what the fields mean (artifacts, answer) before the walk
    status       what HTTP answers; ``status_from`` overrides it by the state it started in
    opens_run    a fresh run with a fresh budget
    aliases      other paths that lead here (``POST /api/…/{id}/…``)
    """

    name: str
    walks: dict[str, tuple[str, ...]]
    satisfied: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ("user",)
    fields: str = ""
    identity: Call | None = None
    guards: tuple[Guard, ...] = ()
    action: Call | None = None
    status: int = 200
    status_from: dict[str, int] = {}
    opens_run: bool = False
    money: Money | None = None
    on_demand: bool = False
    aliases: tuple[str, ...] = ()
    audited: bool = False


class Editable(Declared, frozen=True):
    """An artifact that people may write with ``PUT …/artifacts/{name}``: where, and what it walks.
    Elsewhere it is refused with ``locked``. ``max_size`` is the request's, if larger than usual."""

    name: str
    walks: dict[str, tuple[str, ...]]
    locked: str = "JOB_LOCKED"
    action: Call | None = None
    max_size: int = 0


class Upload(Declared, frozen=True):
    """A file that a job takes from people: in which states, and what it walks.

    begins       by state, the path that its first byte walks
    walks        by state, the path that the whole file walks in the commit that knows of it
    asset_type   what the file is in the job's library
    artifact     an artifact that becomes the file's address; ``fingerprint`` one that becomes its
                 SHA-256; ``mark`` a mark that becomes its address, for a command to read
    types        the media types that it may be sent as, ``video/*`` for a family (empty: any)
    max_bytes    0: whatever the service takes
    guards       asked before the first byte and again before the commit
    action       a function that adds what the file means (it is in the report's assets)
    locked       the code in every other state
    """

    name: str
    walks: dict[str, tuple[str, ...]]
    asset_type: str
    begins: dict[str, tuple[str, ...]] = {}
    artifact: str = ""
    fingerprint: str = ""
    mark: str = ""
    types: tuple[str, ...] = ()
    max_bytes: int = 0
    guards: tuple[Guard, ...] = ()
    action: Call | None = None
    locked: str = "JOB_LOCKED"


class Recipe(Declared, frozen=True):
    """The way in which a submission is recognised as one that was made before.

    derive       the registered function that lists the parts of a derived key; None: none
    client       what a client's own key is: the ``only`` one, used ``instead`` of the derived one,
                 or ``additional`` to it
    freed        statuses in which a key is free again; the old job then walks ``supersede``,
                 unless it has ended for good
    """

    derive: Call | None = None
    client: Literal["only", "instead", "additional"] = "only"
    freed: tuple[str, ...] = ()
    supersede: tuple[str, ...] = ()
    max_length: int = 255


class JobType(Declared, frozen=True):
    """One kind of submission: its params struct (a registered name), and its price. Jobs show their
    params ``as_given``, or with the defaults that stages, guards and recipes see in any case."""

    name: str
    params: str
    price: int = 0
    as_given: bool = False


class Birth(Declared, frozen=True):
    """Guards and money of a job's birth."""

    guards: tuple[Guard, ...] = ()
    money: Money | None = None


class Quota(Declared, frozen=True):
    """Submissions of one user to one workflow; 0 switches a limit off."""

    open_jobs: int = 0
    per_minute: int = 0
    per_day: int = 0


class Route(Declared, frozen=True):
    """An extra door, as data: a submission or a command under a path of the workflow's own.

    ``body`` names a registered struct, ``read`` the function that turns it into params, ``answer``
    the pure function that shapes what is said back; ``wait_s`` is how long it waits for the end.
    """

    method: Literal["POST", "PUT"]
    path: str
    job_type: str = ""
    command: str = ""
    body: str = ""
    read: str = ""
    answer: str = ""
    wait_s: float = 0
    status: int = 200


class Notify(Declared, frozen=True):
    """The place where an operator is told of all jobs of a workflow, and of what. No plugin's
    business: what a declaration says here is replaced by the settings."""

    url: str = ""
    on: tuple[Happening, ...] = UNASKED


class Workflow(Declared, frozen=True):
    """The declared lifecycle of a kind of job. ``codes`` are the error codes it adds, with their
    HTTP status; ``foreign`` is what a stranger's job answers; ``failed_stages`` limits what a
    report may name as the stage that failed; ``folder`` stands before owner and job in the storage
    paths of its files. ``artifacts`` are those that it lists; names that are not listed are free to
    stages, role workflow and admins. ``results`` are the forms of a result by job type (``*`` for
    the rest). ``children`` are workflows whose jobs its stages may submit, ``singleton`` says of
    which of its jobs there is one."""

    name: str
    version: str
    initial: str
    states: tuple[State, ...]
    edges: tuple[Edge, ...]
    job_types: tuple[JobType, ...]
    commands: tuple[Command, ...] = ()
    editables: tuple[Editable, ...] = ()
    uploads: tuple[Upload, ...] = ()
    artifacts: tuple[Listed, ...] = ()
    results: dict[str, tuple[Shape, ...]] = {}
    birth: Birth = Birth()
    recipe: Recipe = Recipe()
    locks: tuple[Lock, ...] = ()
    routes: tuple[Route, ...] = ()
    quota: Quota = Quota()
    lease_s: float = 1800
    foreign: Literal[403, 404] = 404
    failed_stages: tuple[str, ...] = ()
    folder: str = ""
    codes: dict[str, int] = {}
    settings: dict[str, Any] = {}
    notify: Notify = Notify()
    children: tuple[ChildWorkflow, ...] = ()
    singleton: SingletonBy | None = None


class Definition:
    """A workflow with the functions and structs that its names stand for, indexed for use.

    ``functions`` and ``structs`` are looked up by the names used in the data; a name that does not
    resolve is a fault of ``check``. ``settings`` is what an operator may set, as a struct whose
    fields all have defaults. ``digest`` identifies the declaration as its plugin ships it:
    every job pins the one it was born under, whatever an operator lays over it later.
    ``was`` maps names that functions and structs had in older declarations to those that they have.
    """

    def __init__(
        self,
        workflow: Workflow,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        structs: Mapping[str, type[Struct]] | None = None,
        digest: str = "",
        settings: type[Struct] | None = None,
        was: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = settings
        self.was = dict(was or {})
        self.workflow = _with_defaults(workflow, settings) if settings else workflow
        self.functions = dict(functions or {})
        self.structs = dict(structs or {})
        self._digest = digest

    @cached_property
    def digest(self) -> str:
        """Worked out when it is asked for: what is not well formed cannot be encoded either, and
        is told by its field and not by where it was written down."""
        return self._digest or sha256(self.encoded).hexdigest()

    @cached_property
    def encoded(self) -> bytes:
        """The declaration as it is stored and compared."""
        return msgspec.json.encode(self.workflow, order="sorted")

    @cached_property
    def states(self) -> dict[str, State]:
        return {state.name: state for state in self.workflow.states}

    @cached_property
    def takes_turns(self) -> bool:
        return any(state.one_at_a_time is not None for state in self.workflow.states)

    @cached_property
    def commands(self) -> dict[str, Command]:
        return {command.name: command for command in self.workflow.commands}

    @cached_property
    def editables(self) -> dict[str, Editable]:
        return {editable.name: editable for editable in self.workflow.editables}

    @cached_property
    def uploads(self) -> dict[str, Upload]:
        return {upload.name: upload for upload in self.workflow.uploads}

    @cached_property
    def listed(self) -> dict[str, Listed]:
        return {artifact.name: artifact for artifact in self.workflow.artifacts}

    @cached_property
    def job_types(self) -> dict[str, JobType]:
        return {job_type.name: job_type for job_type in self.workflow.job_types}

    @cached_property
    def table(self) -> dict[str, dict[str, Edge]]:
        """State → target → edge, with wildcards expanded: a missing key *is* the illegal move.
        A pair named outright wins over a wildcard."""
        table: dict[str, dict[str, Edge]] = {name: {} for name in self.states}
        for edge in sorted(self.workflow.edges, key=lambda edge: edge.source != ANY):
            for source in self._sources(edge):
                table.setdefault(source, {})[edge.target] = edge
        return table

    def targets(self, status: str) -> list[str]:
        """List where a job may go from here, self edges included, sorted."""
        return sorted(self.table.get(status, {}))

    @cached_property
    def _situations(self) -> dict[tuple[str, str], Situation]:
        settings = self.workflow.settings
        both = product(self.states.values(), self.job_types)
        return {(state.name, kind): situation_of(state, kind, settings) for state, kind in both}

    def at(self, status: str, job_type: str) -> Situation:
        """The situation of a job that stands here. Those of types that are not declared are not
        kept: anybody may ask for one."""
        known = self._situations.get((status, job_type))
        return known or situation_of(self.states[status], job_type, self.workflow.settings)

    def stage_of(self, status: str, job_type: str) -> str:
        return self.at(status, job_type).stage

    def in_house(self, status: str, job_type: str) -> bool:
        return self.at(status, job_type).in_house

    def is_remote(self, status: str, job_type: str) -> bool:
        return self.at(status, job_type).remote

    def goes_on(self, status: str, job_type: str) -> bool:
        return self.at(status, job_type).goes_on

    def onward_of(self, status: str, job_type: str) -> str:
        return self.at(status, job_type).onward

    def result_shapes(self, job_type: str) -> tuple[Shape, ...]:
        """The forms that a result may have; none: any."""
        return self.workflow.results.get(job_type, self.workflow.results.get(ANY, ()))

    @cached_property
    def guarding(self) -> dict[str, Lock]:
        """The first lock that guards a state is its lock."""
        return {status: lock for lock in reversed(self.workflow.locks) for status in lock.guarded}

    @cached_property
    def holding(self) -> dict[str, Lock]:
        """The first lock that is kept while a job rests in a state, by that state."""
        return {status: lock for lock in reversed(self.workflow.locks) for status in lock.held}

    @cached_property
    def scopes(self) -> dict[str, frozenset[str]]:
        """The scopes of the locks that are taken or kept in a state, by that state."""
        locks = [(lock.scope, {*lock.guarded, *lock.held}) for lock in self.workflow.locks]
        return {
            name: frozenset(scope for scope, in_it in locks if name in in_it)
            for name in self.states
        }

    @cached_property
    def spenders(self) -> frozenset[Trigger]:
        """Everybody who may take an edge that costs."""
        costs = (edge for edge in self.workflow.edges if edge.money in ("hold", "charge"))
        return frozenset(trigger for edge in costs for trigger in edge.by)

    def _sources(self, edge: Edge) -> list[str]:
        if edge.source != ANY:
            return [edge.source]
        return [state.name for state in self.workflow.states if state.kind != "final"]


def _with_defaults(workflow: Workflow, settings: type[Struct]) -> Workflow:
    """Lay the settings over their defaults; a struct without defaults is told by ``check``."""
    try:
        defaults: dict[str, Any] = msgspec.to_builtins(settings())
        return replace(workflow, settings={**defaults, **workflow.settings})
    except Exception:  # noqa: BLE001 - a stranger's class, or no class at all
        return workflow
