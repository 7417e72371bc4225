"""The people and programs around a service, as a declaration lets one imagine them: users who
submit the same thing twice, orchestrators whose callbacks come five times, late and changed,
workers who take a job and are never seen again, an admin who moves things by hand.
"""

import random
from collections.abc import Awaitable, Callable
from hashlib import sha256
from operator import methodcaller
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.actors import Answer, Facade
from jobrunner.actors.features.claims import ClaimSearch
from jobrunner.core.declaration.workflow import Command, Definition
from jobrunner.core.job import Actor, Asset, Snapshot
from jobrunner.core.messages import (
    Answered,
    Beat,
    Claim,
    Do,
    Edit,
    Event,
    Message,
    Move,
    Release,
    Report,
    Stop,
    Submit,
)
from jobrunner.errors import Refused, StorageError
from jobrunner.testing.simulation.answerers import Answerers
from jobrunner.testing.simulation.declared import ahead, artifact_names, failure_of, needed, way
from jobrunner.testing.simulation.plausible import plausible
from jobrunner.testing.simulation.process import Gone, Process
from jobrunner.testing.simulation.witness import Witness

ADA, EVE = Actor("ada", "user"), Actor("eve", "user")
ROOT, OLGA = Actor("root", "admin"), Actor("olga", "workflow")
WORKERS = (Actor("wendy", "workflow"), Actor("will", "workflow"))
GAPS_S = (0.0, 0.0, 0.003, 0.01, 0.05, 0.4, 3.0, 40.0)
LATER_S = (0.0, 0.0, 0.01, 1.0, 90.0, 2000.0)
TRIES = 5
ENOUGH = 3
A_CLIP = {"url": "one"}
Given = dict[str, list[dict[str, Any]]]


class UserSubmission(Struct, frozen=True):
    """Something that users submit, under a key of theirs or none."""

    actor: Actor
    job_type: str
    params: dict[str, Any]
    key: str | None


class Callers:
    """``params`` by job type and ``fields`` by command are used instead of made-up ones; ``note``
    is told what they do and hear."""

    def __init__(
        self, definition: Definition, process: Process, witness: Witness, draw: random.Random,
        note: Callable[..., None], params: Given, fields: Given,
    ) -> None:  # fmt: skip
        self._definition = definition
        self._process = process
        self._witness = witness
        self._draw = draw
        self._note = note
        self._params = params
        self._fields = fields
        self._artifacts = artifact_names(definition)
        self._number = 0
        self._orders = [self._order(number) for number in range(4)]
        self._answerers = Answerers(witness, draw, self._listen)
        self.awaited: list[tuple[str, str]] = []

    async def play(self, steps: int, clients: int = 3) -> None:
        """Do so many things, by several callers at once."""
        async with anyio.create_task_group() as group:
            for number in range(clients):
                group.start_soon(self._client, steps // clients + (number < steps % clients))

    async def tend(self, jobs: list[Snapshot]) -> None:
        """Work as outside workers do who are honest, quick and never tired."""
        for job in jobs:
            attempt = job.attempt
            lies = job.kind == "queued" and job.line_at is None
            if lies or (attempt is not None and attempt.status == "due" and job.line_at is None):
                await self._work(job, WORKERS[0], honest=True)

    # ------------------------------------------------------------ one client

    async def _client(self, steps: int) -> None:
        acts: dict[Callable[[], Awaitable[None]], int] = {
            self._submit: 4, self._command: 8, self._callback: 7, self._claim: 5, self._edit: 1,
            self._transition: 2, self._beat: 2, self._look: 2, self._answer: 4, self._admin: 1,
            self._delete: 1, self._restart: 1,
        }  # fmt: skip
        for _ in range(steps):
            await anyio.sleep(self._draw.choice(GAPS_S))
            if not self._process.up.is_set() and self._draw.random() < 0.8:
                await self._process.up.wait()
            (act,) = self._draw.choices(list(acts), list(acts.values()))
            if act == self._submit and len(self._going()) > ENOUGH and self._draw.random() < 0.7:
                act = self._command
            await (act() if self._witness.jobs else self._submit())

    async def _submit(self) -> None:
        order = self._draw.choice(self._orders)
        if self._draw.random() < 0.1:
            order = replace(order, params=self._some_params(order.job_type))
        run_at = None
        if self._draw.random() < 0.1:
            run_at = self._process.clock.now() + self._draw.choice((500, 60_000))
        async with anyio.create_task_group() as group:
            for _ in range(self._draw.choice((1, 1, 2, 3))):
                group.start_soon(self._submit_until_heard, order, run_at)

    async def _submit_until_heard(self, order: UserSubmission, run_at: int | None) -> None:
        """A client that hears nothing sends it again; it has its key for that."""
        for _ in range(TRIES if order.key else 1):
            submission = Submit(
                order.actor,
                self._definition.workflow.name,
                order.job_type,
                order.params,
                self._process.ids.fresh(),
                order.key,
                _digest(order.job_type, order.params),
                self._draw.choice((0, 0, 5)),
                run_at,
            )
            submit = methodcaller("submit", submission, at_once=self._draw.random() < 0.5)
            heard = await self._ask("submits", submit, "", order)
            if isinstance(heard, Answer):
                body = submission.body_digest
                self._witness.submitted(order.actor.name, order.key, body, heard.job)
            if heard is not None:
                return
            await self._process.up.wait()

    async def _command(self) -> None:
        job = self._job()
        commands = list(self._definition.commands.values())
        likely = [one for one in commands if self._wanted(job, one)]
        if not commands:
            await self._transition()
            return
        command = self._draw.choice(likely if likely and self._draw.random() < 0.85 else commands)
        expected = self._draw.choice((None, None, None, job.version))
        message = Do(self._who(job, command), command.name, self._some_fields(command), expected)
        await self._tell(job.id, message, self._draw.choice((1, 1, 2)))

    async def _callback(self) -> None:
        """Some events never come, some five times; in any order, whatever came between."""
        job = self._job()
        to, report = self._destination(job)
        at = self._process.clock.now() - self._draw.choice((0, 0, 0, 5_000))
        told = self._event(job, to, report, at)
        async with anyio.create_task_group() as group:
            for _ in range(self._draw.choice((0, 1, 1, 2, 3, 5))):
                message = told
                if self._draw.random() < 0.1 and told.event is not None:
                    other = self._event(job, to, replace(report, message="otherwise"), at)
                    assert other.event is not None
                    message = replace(other, event=replace(other.event, id=told.event.id))
                group.start_soon(self._send, job.id, message, self._draw.choice(LATER_S))

    async def _send(self, job_id: str, message: Move, later_s: float) -> None:
        await anyio.sleep(later_s)
        heard = await self._ask("calls back", lambda one: one.ask(job_id, message), job_id, message)
        if isinstance(heard, Answer) and not heard.replayed and message.event is not None:
            self._witness.applied(job_id, message.event.id, heard.job.version)

    async def _claim(self) -> None:
        worker = self._draw.choice(WORKERS)
        if self._draw.random() < 0.5:
            await self._work(self._job(), worker)
            return
        wait_s = self._draw.choice((0.0, 2.0))
        search = ClaimSearch(worker, self._definition.workflow.name, 1, wait_s)
        taken = await self._listen("looks for work", lambda one: one.claims.take(search))
        for answer in taken if isinstance(taken, list) else []:
            self._witness.show(answer.job)
            await self._report(answer.job, worker)

    async def _work(self, job: Snapshot, worker: Actor, honest: bool = False) -> None:
        heard = await self._ask("claims", lambda one: one.ask(job.id, Claim(worker)), job.id)
        if isinstance(heard, Answer):
            await self._report(heard.job, worker, honest)

    async def _report(self, job: Snapshot, worker: Actor, honest: bool = False) -> None:
        """Progress, and how it went; or never a word again."""
        if job.kind != "active":
            return
        if not honest:
            for _ in range(self._draw.choice((0, 0, 1, 3))):
                await anyio.sleep(self._draw.choice(GAPS_S))
                await self._tell(job.id, Beat(worker, self._draw.randint(0, 100)))
            if self._draw.random() < 0.2:
                return
        state = self._definition.states[job.status]
        well = bool(state.done) and self._draw.random() < 0.75
        to = state.done if well else self._failing(job)
        report = self._some_report(job, to, sound=honest or self._draw.random() < 0.9)
        await self._tell(job.id, Move(worker, to, replace(report, run_id=job.run_id or None)))

    async def _edit(self) -> None:
        job, editables = self._job(), self._definition.editables
        if editables:
            name = self._draw.choice(list(editables))
            base = self._draw.choice((None, None, 0, 1))
            value = self._draw.choice(("# One", "# Two"))
            await self._tell(job.id, Edit(Actor(job.user_id, "user"), name, value, base))

    async def _transition(self) -> None:
        job = self._job()
        to, report = self._destination(job)
        by = self._draw.choice((ROOT, OLGA, Actor(job.user_id, "user")))
        await self._tell(job.id, Move(by, to, report))

    async def _beat(self) -> None:
        await self._tell(self._job().id, Beat(self._draw.choice(WORKERS), 50, "half way"))

    async def _look(self) -> None:
        job = self._job()
        wait_s = self._draw.choice((0.0, 0.5, 20.0))
        found = await self._listen("looks", lambda one: one.changed(job, wait_s, False), job.id)
        if isinstance(found, Snapshot):
            self._witness.show(found)

    async def _answer(self) -> None:
        """The callback that a stage awaits, or awaited, or the answer to what it asks."""
        if self.awaited:
            job_id, key = self._draw.choice(self.awaited[-6:])
            await self._tell(job_id, Answered(OLGA, key, A_CLIP), self._draw.choice((1, 1, 2)))
        elif not await self._answerers.answer():
            await self._look()

    async def _admin(self) -> None:
        await self._tell(self._job().id, self._draw.choice((Stop(ROOT, "enough"), Release(ROOT))))

    async def _delete(self) -> None:
        job = self._job()
        if not job.ended or self._draw.random() < 0.5:
            return
        actor = Actor(job.user_id, "user")
        self._witness.deleted[job.id] = None
        await self._listen("deletes", lambda one: one.deletions.forget(job.id, actor), job.id)
        self._witness.jobs.pop(job.id, None)

    async def _restart(self) -> None:
        """Stop the service, or set the clock, as somebody who sees to the machine would."""
        faults = self._process.fate.faults
        if faults.jumps and self._draw.random() < 0.5:
            self._process.clock.ahead_ms += self._draw.choice((-3_600_000, -1000, 1000, 7_200_000))
            self._note("sets the clock", ahead_ms=self._process.clock.ahead_ms)
        elif self._process.fate.may_restart():
            self._process.restart()

    # ------------------------------------------------------------ asking

    async def _tell(self, job_id: str, message: Message, times: int = 1) -> None:
        what = type(message).__name__.lower()
        async with anyio.create_task_group() as group:
            for _ in range(times):
                group.start_soon(
                    self._ask, what, lambda one: one.ask(job_id, message), job_id, message
                )

    async def _ask(
        self,
        what: str,
        ask: Callable[[Facade], Awaitable[Answer]],
        job_id: str = "",
        message: object = None,
    ) -> Answer | Refused | None:
        """Return what was heard; None when that is nothing, or that nothing could be stored."""
        heard: Answer | Refused | None = await self._listen(what, ask, job_id, message)
        if isinstance(heard, Answer):
            self._witness.show(heard.job)
            self._note("is told", job=heard.job.id, status=heard.job.status,
                       version=heard.job.version, replayed=heard.replayed)  # fmt: skip
        return heard

    async def _listen(
        self,
        what: str,
        ask: Callable[[Facade], Awaitable[Any]],
        job_id: str = "",
        message: object = None,
    ) -> Any:
        await anyio.sleep(self._draw.choice((0.0, 0.0, 0.002)))
        self._note(what, job=job_id, message=message)
        try:
            return await self._process.call(ask)
        except (Gone, StorageError) as silence:
            self._note("hears nothing", job=job_id, why=type(silence).__name__)
        except Refused as refused:
            self._note("is refused", job=job_id, code=refused.code)
            return refused
        except Exception as bug:  # noqa: BLE001 - whatever it is, it is no answer
            whom = f"job {job_id}" if job_id else "a caller"
            self._witness.fault(f"{whom}: {what} was answered by a bug: {bug!r}")
        return None

    # ------------------------------------------------------------ choosing

    def _job(self) -> Snapshot:
        """One that somebody has seen; more often one that goes on, and the one that came far."""
        jobs, going = list(self._witness.jobs.values()), self._going()
        if going and self._draw.random() < 0.4:
            return max(going, key=lambda job: job.version)
        return self._draw.choice(going if going and self._draw.random() < 0.7 else jobs)

    def _going(self) -> list[Snapshot]:
        jobs = self._witness.jobs.values()
        return [job for job in jobs if not job.ended]

    def _destination(self, job: Snapshot) -> tuple[str, Report]:
        targets = ahead(self._definition, job.status)
        if not targets or self._draw.random() < 0.15:
            targets = list(self._definition.states)
        to = self._draw.choice(targets)
        if self._draw.random() < 0.75 or (self._ends(to) and self._draw.random() < 0.7):
            to = min(targets, key=lambda name: (self._ends(name), self._witness.been(name)))
        return to, self._some_report(job, to, sound=self._draw.random() < 0.85)

    def _ends(self, status: str) -> bool:
        return self._definition.states[status].kind == "final"

    def _failing(self, job: Snapshot) -> str:
        retry = self._definition.states[job.status].retry
        if retry is not None and retry.mode == "self_edge" and self._draw.random() < 0.6:
            return job.status
        return retry.failed[0] if retry is not None and retry.failed else job.status

    def _some_report(self, job: Snapshot, to: str, sound: bool) -> Report:
        """Make a report as this state wants it, or just anything."""
        definition, state = self._definition, self._definition.states[to]
        names = needed(definition, job.status, to) if sound else []
        names += [name for name in self._artifacts if self._draw.random() < 0.1]
        failing = bool(state.fails) and sound
        retried = to == job.status and state.same == "retry" and self._draw.random() < 0.5
        fields = failure_of(definition, job.status, self._draw) if failing or retried else {}
        return Report(
            artifacts={name: f"s3://made/{self._draw.randint(1, 2)}" for name in names},
            assets=(self._file(),) if self._draw.random() < (0.8 if sound else 0.1) else (),
            result={"total": 12} if self._draw.random() < 0.5 else None,
            progress=self._draw.choice((None, 40, 90)),
            **fields,
        )

    def _file(self) -> Asset:
        fresh = self._process.ids.fresh()
        return Asset(fresh, "image", f"https://files.example/{fresh}.png")

    def _event(self, job: Snapshot, to: str, report: Report, at: int) -> Move:
        self._number += 1
        event = Event(f"event-{self._number}", _digest(to, at, report), at)
        return Move(OLGA, to, report, event=event)

    def _wanted(self, job: Snapshot, command: Command) -> bool:
        """Choose what is possible here; and what ends a job more seldom than what takes it on."""
        path = way(command, job.status)
        if path is None:
            return False
        return not path or not self._ends(path[-1]) or self._draw.random() < 0.1

    def _who(self, job: Snapshot, command: Command) -> Actor:
        allowed = {"user": Actor(job.user_id, "user"), "admin": ROOT, "workflow": OLGA}
        return EVE if self._draw.random() < 0.05 else allowed[self._draw.choice(command.roles)]

    def _some_fields(self, command: Command) -> dict[str, Any]:
        if command.name in self._fields:
            return self._draw.choice(self._fields[command.name])
        if not command.fields:
            return {}
        return plausible(self._definition.structs[command.fields], self._draw)

    def _some_params(self, job_type: str) -> dict[str, Any]:
        if job_type in self._params:
            return self._draw.choice(self._params[job_type])
        struct = self._definition.structs[self._definition.job_types[job_type].params]
        return plausible(struct, self._draw)

    def _order(self, number: int) -> UserSubmission:
        job_type = self._draw.choice(list(self._definition.job_types))
        key = self._draw.choice((f"key-{number % 3}", f"key-{number % 3}", None))
        actor = ADA if self._draw.random() < 0.7 else EVE
        return UserSubmission(actor, job_type, self._some_params(job_type), key)


def _digest(*said: Any) -> str:
    return sha256(repr(said).encode()).hexdigest()
