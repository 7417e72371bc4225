"""A world that fits into a test: one lifecycle, its jobs and their rows, and nothing that waits.

``World`` stands in for the actors and the store around the pure core. It reads the facts, asks the
core, and writes down what was decided, checking on the way what no decision may ever break: a
final job stays as it is, versions rise by one, no money of a run moves twice, nobody owes.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from jobrunner.core.decide import born, decide, derived_parts, keys_of, needs
from jobrunner.core.decision import (
    CreditEntry,
    DeadLetter,
    Decision,
    EdgeTaken,
    Effect,
    KeyRow,
    LogEvent,
    NoOp,
)
from jobrunner.core.declaration.workflow import EXTERNAL, Definition, Workflow
from jobrunner.core.facts import Facts, Known, SeenEvent
from jobrunner.core.job import Actor, Artifact, Asset, Attempt, Failure, Snapshot
from jobrunner.core.messages import (
    Claim,
    Do,
    Ended,
    Event,
    Fired,
    Message,
    Moment,
    Move,
    Report,
    Start,
    Submit,
)
from jobrunner.core.units import AuditRecord
from jobrunner.errors import Refused

ADA = Actor("ada", "user")
EVE = Actor("eve", "user")
ADMIN = Actor("root", "admin")
WORKER = Actor("worker", "workflow")

NOON = 1_767_225_600_000
BALANCE = {"hold": -1, "charge": -1, "release": 1, "refund": 1, "capture": 0}
HELD = {"hold": 1, "release": -1, "capture": -1, "charge": 0, "refund": 0}

Said = Decision | NoOp | Refused
Arrange = Callable[["World"], str]


class World:
    """One lifecycle with everything that was ever written about its jobs."""

    def __init__(self, definition: Definition, balance: int = 25) -> None:
        self.definition = definition
        self.initial = balance
        self.now = NOON
        self.jitter = 0.5
        self.count = 0
        self.jobs: dict[str, Snapshot] = {}
        self.keys: dict[tuple[str, str], tuple[str, KeyRow]] = {}
        self.events: dict[tuple[str, str], SeenEvent] = {}
        self.hops: list[tuple[str, int, EdgeTaken]] = []
        self.ledger: list[tuple[str, CreditEntry]] = []
        self.audits: list[tuple[str, AuditRecord]] = []
        self.dead_letters: list[tuple[str, DeadLetter]] = []
        self.assets: list[tuple[str, Asset]] = []
        self.artifacts: list[tuple[str, Artifact]] = []
        self.attempts: dict[tuple[str, int], Attempt] = {}
        self.effects: list[tuple[str, Effect]] = []
        self.writes = 0
        self.logs: list[tuple[str, LogEvent]] = []
        self.lent: frozenset[str] = frozenset()

    # ------------------------------------------------------------ asking

    def submit(
        self,
        job_type: str = "",
        params: dict[str, Any] | None = None,
        *,
        actor: Actor = ADA,
        key: str | None = None,
        **more: Any,
    ) -> Said:
        """A submission through the door: params decoded, keys made, facts read, born."""
        workflow = self.definition.workflow
        declared = self.definition.job_types[job_type or workflow.job_types[0].name]
        struct = self.definition.structs[declared.params]
        decoded = msgspec.to_builtins(msgspec.convert(params or {}, struct))
        body = sha256(repr((declared.name, params)).encode()).hexdigest()
        moment = self._moment()
        asked = Submit(
            actor, workflow.name, declared.name, decoded, f"job-{moment.id}", key, body, **more
        )
        pair = keys_of(derived_parts(self.definition, asked, self.now), asked)
        facts = self._door(asked, pair)
        keys = tuple(row for row in pair if row is not None)
        said = born(self.definition, asked, facts, moment, keys)
        if isinstance(said, Decision):
            self._write(said)
        return said

    def born(self, job_type: str = "", params: dict[str, Any] | None = None, **more: Any) -> str:
        """The id of a job that was just made."""
        said = self.submit(job_type, params, **more)
        assert isinstance(said, Decision), said
        return said.after.id

    def tell(self, job_id: str, message: Message) -> Said:
        """One message to one job; what it decided is written, and nothing else."""
        job = self.jobs[job_id]
        before = msgspec.json.encode(job)
        said = decide(self.definition, job, message, self._facts(job, message), self._moment())
        assert msgspec.json.encode(job) == before, "a snapshot is never changed in place"
        if isinstance(said, Decision):
            self._write(said)
        return said

    def move(self, job_id: str, to: str, actor: Actor = ADMIN, **report: Any) -> Said:
        return self.tell(job_id, Move(actor, to, Report(**report)))

    def callback(
        self, job_id: str, event: str, to: str, at: int | None = None, **report: Any
    ) -> Said:
        """A status callback; what it says is what its digest covers."""
        return self.tell(job_id, self.called_back(event, to, at, **report))

    def called_back(self, event: str, to: str, at: int | None = None, **report: Any) -> Move:
        occurred_at = self.now if at is None else at
        digest = _digest(repr((to, occurred_at, sorted(report.items()))).encode())
        said = Event(event, digest, occurred_at)
        return Move(WORKER, to, Report(**report), event=said)

    def do(self, job_id: str, command: str, actor: Actor = ADA, **fields: Any) -> Said:
        return self.tell(job_id, Do(actor, command, fields))

    def claim(self, job_id: str, actor: Actor = WORKER) -> Said:
        return self.tell(job_id, Claim(actor))

    def start(self, job_id: str) -> Said:
        return self.tell(job_id, Start())

    def ended(self, job_id: str, outcome: str, failure: Failure | None = None, **more: Any) -> Said:
        """The stage in the house that works on this job is done, one way or another."""
        attempt = self.jobs[job_id].attempt
        assert attempt is not None, "nobody works on this job"
        await_s = more.pop("await_s", 0)
        awaits = more.pop("awaits", "")
        message = Ended(attempt.serial, outcome, Report(**more), failure, awaits, await_s)
        return self.tell(job_id, message)

    def fire(self, job_id: str, purpose: Any) -> Said:
        """Time passes until this timer is due."""
        timer = self.jobs[job_id].timer(purpose)
        assert timer is not None, f"no {purpose} timer: {self.jobs[job_id].timers}"
        self.now = max(self.now, timer.due_at)
        return self.tell(job_id, Fired(purpose, timer.due_at))

    # ------------------------------------------------------------ looking

    def balance(self, user: str = "ada") -> int:
        return self.initial + self._sum(user, BALANCE)

    def held(self, user: str = "ada") -> int:
        return self._sum(user, HELD)

    def path(self, job_id: str) -> list[str]:
        """Every status the job ever had, in order."""
        return [hop.to_status for one, _, hop in self.hops if one == job_id]

    def money(self, job_id: str) -> list[str]:
        return [entry.kind for one, entry in self.ledger if one == job_id]

    def logged(self, job_id: str, event: str) -> list[dict[str, Any]]:
        return [log.fields for one, log in self.logs if one == job_id and log.event == event]

    def audited(self, job_id: str) -> list[AuditRecord]:
        return [record for one, record in self.audits if one == job_id]

    def tried(self, job_id: str) -> list[Attempt]:
        """Every attempt of the job as it is recorded now, the first one first."""
        return [found for (one, _), found in sorted(self.attempts.items()) if one == job_id]

    # ------------------------------------------------------------ writing

    def _moment(self) -> Moment:
        self.count += 1
        self.now += 10
        return Moment(self.now, f"{self.count:04}", self.jitter)

    def _sum(self, user: str, signs: dict[str, int]) -> int:
        mine = [entry for _, entry in self.ledger if entry.user_id == user]
        return sum(signs[entry.kind] * entry.amount for entry in mine)

    def _door(self, asked: Submit, pair: tuple[KeyRow | None, ...]) -> Facts:
        mine = [job for job in self.jobs.values() if job.user_id == asked.actor.name]
        client, derived = (self._known(asked, row) for row in pair)
        return Facts(
            known=client,
            derived=derived,
            balance=self.balance(asked.actor.name),
            open_jobs=sum(job.kind not in ("settled", "final") for job in mine),
            last_minute=sum(job.created_at > self.now - 60_000 for job in mine),
            last_day=sum(job.created_at > self.now - 86_400_000 for job in mine),
        )

    def _known(self, asked: Submit, row: KeyRow | None) -> Known | None:
        found = self.keys.get((asked.actor.name, row.digest)) if row else None
        return Known(found[0], found[1].body_digest, self.jobs[found[0]]) if found else None

    def _facts(self, job: Snapshot, message: Message) -> Facts:
        wanted = needs(self.definition, job, message)
        files = {asset.id for one, asset in self.assets if one == job.id}
        return Facts(
            event=self.events.get((job.id, wanted.event)) if wanted.event else None,
            balance=self.balance(job.user_id) if wanted.balance else None,
            verified=frozenset(files) if wanted.files else frozenset(),
            lent=self.lent,
        )

    def _write(self, decision: Decision) -> None:
        """Releases of a superseded job come first: what they give back may be needed at once."""
        for other in decision.also:
            self._write(other)
        self._check(decision)
        self.writes += 1
        job = decision.after
        self.jobs[job.id] = job
        self.hops += [(job.id, job.version, hop) for hop in decision.hops]
        self.ledger += [(job.id, entry) for entry in decision.ledger]
        self.audits += [(job.id, record) for record in decision.audits]
        self.dead_letters += [(job.id, letter) for letter in decision.dead_letters]
        self.assets += [(job.id, asset) for asset in decision.assets]
        self.artifacts += [(job.id, artifact) for artifact in decision.artifacts]
        self.attempts |= {(job.id, attempt.serial): attempt for attempt in decision.attempts}
        self.effects += [(job.id, effect) for effect in decision.effects]
        self.logs += [(job.id, log) for log in decision.logs]
        for row in decision.keys:
            self.keys[job.user_id, row.digest] = (job.id, row)
        if decision.event is not None:
            row_id = (job.id, decision.event.event_id)
            self.events[row_id] = SeenEvent(decision.event.event_id, decision.event.digest)
        self._solvent(job)

    def _check(self, decision: Decision) -> None:
        before, job = decision.before, decision.after
        moved = {(one, entry.run_id, entry.kind) for one, entry in self.ledger}
        for entry in decision.ledger:
            assert (job.id, entry.run_id, entry.kind) not in moved, f"{entry.kind} twice in one run"
        if before is not None:
            assert before == self.jobs[job.id], "decided about a job as it no longer is"
            assert not decision.hops or before.kind != "final", "a final job stays as it is"
            assert job.version - before.version in (0, 1)
            assert job.version > before.version or not decision.hops

    def _solvent(self, job: Snapshot) -> None:
        assert self.balance(job.user_id) >= 0, "nobody owes"
        assert self.held(job.user_id) >= 0, "nothing is settled twice"


def bound(definition: Definition, **changes: Any) -> Definition:
    """The same lifecycle with every active state worked by a stage in the house; what is done on
    demand is an outside worker's. ``changes`` are to the workflow's other fields."""
    states = tuple(
        msgspec.structs.replace(
            state,
            stage={"*": "test.stage"} if state.kind == "active" else {},
            on_demand=EXTERNAL if state.on_demand else "",
        )
        for state in definition.workflow.states
    )
    return varied(definition, **{"states": states, **changes})


def outside(definition: Definition) -> Definition:
    """The same lifecycle with nobody in the house: every stage is an outside worker's."""
    states = tuple(
        msgspec.structs.replace(
            state,
            stage={"*": EXTERNAL} if state.kind == "active" else {},
            on_demand=EXTERNAL if state.on_demand else "",
        )
        for state in definition.workflow.states
    )
    return varied(definition, states=states)


def varied(definition: Definition, **changes: Any) -> Definition:
    """The same lifecycle with other values in some of the workflow's fields."""
    workflow: Workflow = msgspec.structs.replace(definition.workflow, **changes)
    return Definition(workflow, definition.functions, definition.structs)


def picture(name: str = "one") -> Asset:
    """A file, as a report brings it."""
    return Asset(f"asset-{name}", "image", f"/assets/{name}/content", f"ada/{name}.png", 3)


def code(said: Said) -> str:
    """``moved``, ``noted`` (something written, the status kept), the name of a no-op, or the code
    of a refusal."""
    if isinstance(said, Refused):
        return said.code
    if isinstance(said, NoOp):
        return said.name
    return "moved" if said.hops else "noted"


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
