"""The parts of a declaration that make up its graph: states, edges, guards, retries, locks."""

from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

Kind = Literal["waiting", "queued", "active", "settled", "final"]
# Nothing happens by itself any more.
ENDED: tuple[Kind, ...] = ("settled", "final")
Trigger = Literal["user", "admin", "workflow", "stage", "timer", "engine"]
Role = Literal["user", "workflow", "admin"]
TokenRole = Literal[Role, "reader"]
End = Literal["completed", "partial", "failed", "canceled", "rejected", "expired"]
Money = Literal["hold", "capture", "release", "charge", "refund"]

EXTERNAL = "external"
REMOTE = "remote"
DASK = "dask"
AWAY = f"@{DASK}"  # ends the name of a stage that runs on a cluster
ANY = "*"


class Declared(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The common shape of all parts of a declaration."""


class Call(Declared, frozen=True):
    """A registered pure function, by name, with arguments."""

    name: str
    args: dict[str, Any] = {}


class Guard(Declared, frozen=True):
    """A check before an edge: yes, a refusal, or another path instead.

    ``on`` limits it to some triggers (empty: all). With ``otherwise`` a refusal is not answered but
    walked: the job goes along that path, taking ``code`` as its failure code where it fails.
    """

    call: Call
    on: tuple[Trigger, ...] = ()
    otherwise: tuple[str, ...] = ()
    code: str = ""


class Audit(Declared, frozen=True):
    """A durable record written when an edge is taken."""

    event: str
    fields: dict[str, Any] = {}


class Edge(Declared, frozen=True):
    """A declared move. ``source`` is a state's name, or ``*`` for every non-final state."""

    source: str
    target: str
    by: tuple[Trigger, ...]
    guards: tuple[Guard, ...] = ()
    money: Money | None = None
    audit: Audit | None = None


class Retry(Declared, frozen=True):
    """The retries of an active state: where they live, how many there are, and where they end.

    ``round_trip``  the failure takes the edge to ``failed[0]``; with budget left the job rests
                    there until a timer takes it on to ``again``, else it walks on in ``failed``.
    ``inside``      nothing but a new attempt; exhausted or permanent: walk ``failed``.
    ``self_edge``   each new attempt is a logged edge from the state to itself; then as ``inside``.

    ``max`` counts attempts in all, per run.
    """

    mode: Literal["round_trip", "inside", "self_edge"]
    failed: tuple[str, ...]
    again: str = ""
    max: int = 3
    base_s: float = 1
    factor: float = 2
    cap_s: float = 30
    jitter: float = 0.1


class Deadline(Declared, frozen=True):
    """The time that a state may last before the engine leaves it.

    In an active state it counts from the start of the attempt, while no stage of ours works on
    it (external, or parked). An empty ``path`` means: the attempt fails, retryably, STAGE_TIMEOUT.
    """

    after_s: float
    path: tuple[str, ...] = ()


class State(Declared, frozen=True, dict=True):
    """One node of a workflow.

    stage        by job type (``*`` for the rest) the stage bound to it, or ``external``
    onward       by job type, where the engine itself takes a job that stands here: a ``queued``
                 state into the active one behind it, a ``waiting`` one if it declares to pass on
    onward_if    a setting without which ``onward`` is not taken (empty: it always is), or with
                 which it is not, as ``not review``: then a person is waited for instead
    done         where an active state leads when its stage is done; likewise ``partial`` and
                 ``rejected`` (empty: such an outcome is a permanent failure)
    limit_s      the time limit of one in-process attempt; heartbeat_s the silence it may keep
    same         what a repeat means: refused, no write, a report of progress, or a new try
    entry        where a job's progress stands on entering (None: as it was)
    ends         how logs and clients name the end that this state is
    fails        failure fields that a report entering here must carry; marks a failure state
    remarks      a report entering here may carry failure fields though it is no failure
    checkpoint   the artifact that, verified, lets a new run start behind this state
    produces     the artifact that, verified, makes the stage of this active state superfluous
    along        artifacts that go with ``produces`` to a job done again, with files they name
    person       False on a waiting state that needs nobody: the run stays alive in it
    on_demand    a stage that a command may start here, which leaves the job where it is
    dead_letter  entering it puts the job on the list of given-up work
    library      an outside worker that holds a claim here may look into the library of the owner
    sift         a function that takes out of a report from here what no longer counts
    was          the name, or names, that it had in older declarations: jobs that stand there can be
                 moved here
    one_at_a_time  a function that makes a key of the job: of the attempts here with the same key,
                 ``at_a_time`` are under way at once, in-process; the others wait in line
    remote       the job types (``*`` for all) whose stage here is external, and a plugin's all the
                 same: workers that have it run it, and the engine takes jobs on as if it ran here
    """

    name: str
    kind: Kind
    stage: dict[str, str] = {}
    onward: dict[str, str] = {}
    onward_if: str = ""
    done: str = ""
    partial: str = ""
    rejected: str = ""
    deadline: Deadline | None = None
    limit_s: float = 0
    heartbeat_s: float = 0
    retry: Retry | None = None
    same: Literal["refused", "noop", "progress", "retry"] = "refused"
    entry: int | None = None
    ends: Literal[""] | End = ""
    fails: tuple[str, ...] = ()
    remarks: bool = False
    checkpoint: str = ""
    produces: str = ""
    along: tuple[str, ...] = ()
    person: bool = True
    on_demand: str = ""
    dead_letter: bool = False
    library: bool = False
    sift: Call | None = None
    was: str | tuple[str, ...] = ()
    one_at_a_time: Call | None = None
    at_a_time: int = 1
    remote: tuple[str, ...] = ()

    @cached_property
    def ended(self) -> bool:
        return self.kind in ENDED

    @cached_property
    def rests(self) -> bool:
        """Say whether no run is open here: the job has ended, or waits for a person."""
        return self.ended or (self.kind == "waiting" and self.person)

    @cached_property
    def failing(self) -> bool:
        """Say whether this state is a failure."""
        return bool(self.fails) or self.ends in ("failed", "expired", "rejected")


class Lock(Declared, frozen=True):
    """A right to work on a job: taken on entering one of ``guarded``, kept in ``held``, freed on
    leaving both. ``lapse_s`` after the last sign of life from outside, a run that rests in ``held``
    without being guarded is closed."""

    scope: str
    guarded: tuple[str, ...]
    held: tuple[str, ...] = ()
    lapse_s: float = 0
