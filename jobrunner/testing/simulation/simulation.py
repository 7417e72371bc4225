"""One simulation: a service, the world around it and everything that goes wrong there, from a seed.

First comes the bad time: callers of all kinds, crashes, full disks, clocks that jump. Then the
faults stop, everybody who is honest does what is to be done, and time passes until nothing moves.
What must be true is asked of the file after every life, and at the end.
"""

import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import Unpack

from jobrunner.config import settings
from jobrunner.core.declaration.workflow import Definition, Workflow
from jobrunner.errors import Refused, StorageError
from jobrunner.stages import Registry
from jobrunner.stages.api import Stage
from jobrunner.stages.context import given_of
from jobrunner.stages.equipment import Surroundings
from jobrunner.stages.requests import Answer, Question
from jobrunner.stages.sources import Source
from jobrunner.testing.simulation import laws
from jobrunner.testing.simulation.at_once import answered_at_once
from jobrunner.testing.simulation.callers import ROOT, Callers, Given
from jobrunner.testing.simulation.declared import (
    a_few_jobs,
    bound_to_either,
    in_house,
    is_place,
    stages_of,
)
from jobrunner.testing.simulation.effects import EffectLedger
from jobrunner.testing.simulation.fences import fenced
from jobrunner.testing.simulation.granted import Endowment, Grants
from jobrunner.testing.simulation.loop import Deadlock, Livelock, RealWorld, SimLoop, simulated
from jobrunner.testing.simulation.onlooker import watched
from jobrunner.testing.simulation.process import Gone, Process
from jobrunner.testing.simulation.scripted import SCENE, observed, scripted
from jobrunner.testing.simulation.senders import Senders
from jobrunner.testing.simulation.story import Narrative, Noted
from jobrunner.testing.simulation.wires import SimOutlets, answering
from jobrunner.testing.simulation.witness import Witness
from jobrunner.testing.simulation.world import CALM, Fate, Faults, empty_database, folder

NOTED_MAX = 20_000
ROUNDS_MAX = 250
NAP_MAX_S = 1200.0
BASE_URL = "http://127.0.0.1:8080"
NETWORK = 0.03
Stages = Iterable[Stage | Source] | Mapping[str, Stage]

UPGRADES_DRY = 0.3


class Trace(Struct, frozen=True):
    """The result of a simulation. ``digest`` is a hash over every step of every task and everything
    that was said. ``lines`` are everything that happened, where something did not hold. ``passes``
    are those of the stages that were given: the stage, how it ended, a digest of all it did."""

    seed: int
    digest: str
    steps: int
    virtual_s: float
    lives: int
    jobs: dict[str, int]
    aside: dict[str, str]
    walked: tuple[tuple[str, str], ...]
    stages: int
    faults: tuple[str, ...]
    lines: tuple[str, ...] = ()
    passes: tuple[tuple[str, str, str], ...] = ()


class Broken(AssertionError):
    """A seed under which something that must hold did not. ``replay`` is how to see it again."""

    def __init__(self, trace: Trace, whom: str, told: Sequence[str]) -> None:
        super().__init__(trace)
        self.trace = trace
        self.replay = f"simulate(..., seed={trace.seed}), with the same arguments"
        self._whom = whom
        self._told = told

    def __str__(self) -> str:
        trace = self.trace
        faults = "\n".join(f"- {fault}" for fault in trace.faults)
        steps = "\n".join(f"  {line}" for line in self._told)
        begun = f"what happened {self._whom}".rstrip()
        return (
            f"seed {trace.seed} breaks what must hold:\n{faults}\n"
            f"{begun}:\n{steps}\n"
            f"seed {trace.seed} (trace {trace.digest}): {trace.steps} steps in "
            f"{trace.virtual_s:.1f} s, lives of the service: {trace.lives}\n"
            f"to see it again: {self.replay}"
        )


class Kit:
    """A workflow, ready to be simulated: checked once, its stages at hand. Stages that it binds and
    that are not given are played by scripted ones, which do whatever stages may do."""

    def __init__(
        self, definition: Definition, stages: Stages = (), granted: Endowment | None = None
    ) -> None:
        given = list(stages.values()) if isinstance(stages, Mapping) else list(stages)
        self.definition = definition
        self.granted = granted or Endowment()
        self.stages = {stage.name: stage for stage in given if isinstance(stage, Stage)}
        uploads = {one.name: one for one in definition.workflow.uploads}
        self.granted.checked(list(self.stages.values()), uploads)
        self.registry = Registry(self.granted.laid_over)
        missing = [name for name in stages_of(definition) if name not in self.stages]
        for source in given:
            if isinstance(source, Source):
                self.registry.add(source)
        for stage in (*map(watched, self.stages.values()), *map(observed, map(scripted, missing))):
            self.registry.add(stage)
        self.registry.add(definition)
        refused = self.registry.refused["workflows"].get(definition.workflow.name, ())
        assert not refused, "the workflow is refused:\n" + "\n".join(refused)

    @cached_property
    def otherwise(self) -> tuple[Registry, ...]:
        """The same declaration as operators may bind it: all in-process, all outside, and every
        other state here or there. What the check refuses nobody could start with."""
        names = [state.name for state in self.definition.workflow.states if is_place(state)]
        aways = (set[str](), set(names), set(names[::2]), set(names[1::2]))
        found = (self._bound(frozenset(away)) for away in aways)
        return tuple(registry for registry in found if not registry.refused["workflows"])

    def versions(self) -> tuple[Registry, ...]:
        """The same declaration under other versions, so that it is another one. Made for each
        simulation: a registry remembers what it was told of a file."""
        return tuple(self._called(f"{self.definition.workflow.version}+{n}") for n in range(3))

    def _called(self, version: str) -> Registry:
        registry = Registry()
        for stage in self.registry.stages.values():
            registry.add(stage)
        one = self.definition
        workflow = replace(one.workflow, version=version)
        registry.add(Definition(workflow, one.functions, one.structs, "", one.settings, one.was))
        return registry

    def _bound(self, away: frozenset[str]) -> Registry:
        def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
            return bound_to_either(workflow, lambda state: state.name in away), ()

        registry = Registry(overlay)
        for name in stages_of(in_house(self.definition)):
            registry.add(observed(scripted(name)))
        registry.add(self.definition)
        return registry


def simulate(
    definition: Definition | Kit,
    stages: Stages = (),
    *,
    seed: int,
    steps: int = 60,
    faults: Faults | None = None,
    params: Given | None = None,
    fields: Given | None = None,
    **granted: Unpack[Grants],
) -> Trace:
    """One seed, from birth to rest. ``steps`` is how many things callers do before the faults stop;
    ``params`` by job type and ``fields`` by command stand in for made-up ones; the others are
    what is given (``Grants``)."""
    kit = (
        definition if isinstance(definition, Kit) else Kit(definition, stages, Endowment(**granted))
    )
    with folder() as place:
        empty_database(place / "jobs.db")
        scene = Simulation(kit, seed, place, faults or Faults(), params or {}, fields or {})
        try:
            return simulated(lambda loop: scene.run(loop, steps), seed, fenced)
        except (Deadlock, Livelock, RealWorld) as stuck:
            scene.witness.fault(f"{type(stuck).__name__}: {stuck}")
            raise scene.broken() from None


class Simulation:
    def __init__(
        self, kit: Kit, seed: int, place: Path, faults: Faults, params: Given, fields: Given
    ) -> None:
        self.definition = kit.definition
        self.draw = random.Random(f"draw {seed}")
        self.witness = Witness()
        self.calm = faults == CALM
        self._rebinds, self._bindings = faults.rebinds, random.Random(f"bindings {seed}")
        self._versions = kit.versions() if faults.upgrades else ()
        self._kit = kit
        self._seed = seed
        self._place = place
        self._fate = Fate(seed, faults)
        self._given = params, fields
        self._noted: deque[Noted] = deque(maxlen=NOTED_MAX)
        self._lives = 0
        self._chance = random.Random(f"stages {seed}")
        self._passes: list[tuple[str, str, str]] = []
        self.ledger = EffectLedger(kit.granted.harmless)
        self.folder = str(place)

    async def run(self, loop: SimLoop, steps: int) -> Trace:
        self._loop = loop
        SCENE.set(self)
        self._process = Process(
            loop, self._place, self._config(), self._installed, self._seed,
            self._fate, self._note, self._log, self._around,
        )  # fmt: skip
        self._wires = self._wired(loop)
        self._senders = Senders(
            self.definition, self._process, self._kit.granted, self.witness,
            self._place / "assets", self._chance,
        )  # fmt: skip
        self._senders.calm = self.calm
        self._process.on_end = self._examine
        self._callers = Callers(
            self.definition, self._process, self.witness, self.draw, self._note, *self._given
        )
        async with anyio.create_task_group() as group:
            group.start_soon(self._process.run)
            if self._kit.stages:
                group.start_soon(self._senders.run)
            with anyio.CancelScope() as scope:
                group.start_soon(self._until_broken, scope)
                if self._versions:
                    group.start_soon(self._move_over)
                await self._callers.play(steps)
                await self._come_to_rest()
            await self._process.close()
            group.cancel_scope.cancel()
        if self.witness.faults:
            raise self.broken()
        return self._trace()

    def _installed(self) -> Registry:
        """Choose the registry that the next life finds."""
        if self._versions:
            return self._bindings.choice(self._versions)
        if not self._rebinds:
            return self._kit.registry
        found = self._bindings.randrange(len(self._kit.otherwise))
        self._note("is bound", bindings=found)
        return self._kit.otherwise[found]

    # ------------------------------------------------------------ the stages that were given

    def _wired(self, loop: SimLoop) -> SimOutlets | None:
        http = self._kit.granted.http
        if http is None:
            return None
        answers = answering(http, self._chance, self._posted)
        return SimOutlets(loop, answers, self._chance, lambda: 0.0 if self.calm else NETWORK)

    async def _posted(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """A provider sends a webhook."""
        sources, keys = self._kit.registry.sources, self._kit.granted.keys()
        return await self._senders.post(sources, keys, url, body, headers)

    def _around(self) -> Surroundings | None:
        """Equip the stages of the next life with a way out."""
        if self._wires is None:
            return None
        around = Surroundings(self._wires)
        around.base_url = BASE_URL
        return around

    def fault(self, text: str) -> None:
        """Note what a stage may not do, and end here."""
        self.witness.fault(text)
        self._process.broken.set()

    def strikes(self, share: float) -> bool:
        return not self.calm and self._chance.random() < share

    def meddle(self, job_id: str) -> None:
        self._senders.meddle(job_id)

    def parks(self, job_id: str, key: str, source: str) -> None:
        self._senders.parks(job_id, key, source)

    def ended(self, stage: str, outcome: str, acts: str) -> None:
        self._passes.append((stage, outcome, acts))

    def answers_at_once(self, ctx: Any, question: Question) -> Answer:
        assets = self._place / "assets"
        return answered_at_once(self._database, assets, self._wires, given_of(ctx), question)

    # ------------------------------------------------------------ what happens

    def take_down(self, why: str) -> bool:
        if not self._fate.kills:
            return False
        self._fate.killed()
        self._process.die(why)
        return True

    def expects(self, job_id: str, key: str) -> None:
        self._callers.awaited.append((job_id, key))

    async def _until_broken(self, scope: anyio.CancelScope) -> None:
        """A service that cannot go on ends the simulation, and so does a fault that was seen."""
        await self._process.broken.wait()
        scope.cancel()

    async def _move_over(self) -> None:
        """An admin who wants all jobs under the declaration of today, again and again."""
        name = self.definition.workflow.name
        while True:
            await anyio.sleep(self._bindings.choice((0.2, 3.0, 60.0)))
            dry = self._bindings.random() < UPGRADES_DRY
            with suppress(Gone, Refused, StorageError):
                await self._process.call(lambda one: one.upgrades.order(name, ROOT, None, dry))  # noqa: B023

    async def _come_to_rest(self) -> None:
        """Let everybody do what is theirs to do; nothing goes wrong any more."""
        self._note("the faults stop")
        self._fate.calm()
        self.calm = self._senders.calm = True
        nap_s = 1.0
        for _ in range(ROUNDS_MAX):
            await self._process.up.wait()
            jobs = laws.restless(self._database)
            if not jobs:
                return
            await self._callers.tend(jobs)
            await anyio.sleep(nap_s)
            nap_s = min(nap_s * 1.4, NAP_MAX_S)
        for job in laws.restless(self._database):
            self.witness.fault(
                f"job {job.id} is still {job.status} after {self._loop.time() / 3600:.0f} h, and "
                f"waits for nobody: attempt {job.attempt}, timers {job.timers}"
            )

    def _examine(self) -> None:
        """A life is over, and nobody has the file open."""
        self._lives += 1
        for fault in laws.faults(self._database, self.definition, self.witness):
            self.witness.fault(fault)
        for fault in laws.unrepeatable(self._database, self._versions):
            self.witness.fault(fault)
        if self._process.fault is not None:
            self.witness.fault(f"the service could not go on: {self._process.fault!r}")
        if self.witness.faults:
            self._process.broken.set()

    def broken(self) -> Broken:
        """Tell what did not hold, and the story of it."""
        story = Narrative(self._noted, self.witness.faults)
        return Broken(self._trace(story.faults, story.lines), *story.about())

    def _trace(self, faults: tuple[str, ...] = (), lines: tuple[str, ...] = ()) -> Trace:
        jobs, aside = laws.statuses(self._database)
        return Trace(
            self._seed, self._loop.digest, self._loop.steps, round(self._loop.time(), 3),
            self._lives, jobs, aside, laws.walked(self._database), self.witness.runs,
            faults, lines, tuple(self._passes),
        )  # fmt: skip

    @property
    def _database(self) -> Path:
        return self._place / "jobs.db"

    def _config(self) -> settings.Config:
        limits = settings.LimitsSection(self.draw.randint(1, 4), 1000, self.draw.randint(1, 2))
        return settings.Config(
            server=settings.ServerSection(drain_seconds=5),
            store=settings.StoreSection(str(self._database), str(self._place / "assets")),
            limits=limits,
            credits=settings.CreditsSection(a_few_jobs(self.definition)),
            resources=dict(self._kit.granted.resources),
            workflows=self._on_record(),
        )

    def _on_record(self) -> dict[str, settings.WorkflowSettings]:
        kept = settings.WorkflowSettings(record="decisions")
        return {self.definition.workflow.name: kept} if self._versions else {}

    def _note(self, what: str, **fields: Any) -> None:
        self._noted.append((self._loop.time(), what, fields))
        self._loop.mark(f"{what} {fields.get('job', '')} {fields.get('status', '')}")

    def _log(self, event: str, level: str = "info", **fields: Any) -> None:
        self.witness.logged(event, fields)
        self._noted.append((self._loop.time(), event, fields))
        self._loop.mark(f"{event} {fields.get('job_id', '')}")
