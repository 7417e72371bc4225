"""Puts the room together, opens its parts in order, and closes them in the reverse order."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import anyio
from msgspec import Struct

from jobrunner.actors.attempts import RunningAttempts
from jobrunner.actors.commits import Answer
from jobrunner.actors.consequences import Consequences, Listeners
from jobrunner.actors.dispatcher import Dispatcher
from jobrunner.actors.drain import Drain
from jobrunner.actors.facade import Facade
from jobrunner.actors.features.abandonments import Abandonments
from jobrunner.actors.features.bindings import begin_rebinding, rebind
from jobrunner.actors.features.bulk import Bulks
from jobrunner.actors.features.claims import Claims
from jobrunner.actors.features.families.batches import Batches
from jobrunner.actors.features.families.bearing import Bearing, FamilyLimits
from jobrunner.actors.features.families.partings import Families
from jobrunner.actors.features.notifications.sender import Deliveries
from jobrunner.actors.features.notifications.signing import Seals
from jobrunner.actors.features.overview import Overview
from jobrunner.actors.features.pauses import Pausing
from jobrunner.actors.features.schedules.firings import Firings
from jobrunner.actors.features.schedules.schedules import Schedules
from jobrunner.actors.features.submissions import Submissions
from jobrunner.actors.features.turns.limits import Limits
from jobrunner.actors.features.turns.loans import Loans
from jobrunner.actors.features.turns.rates import HOLD_MOST_S, HOLD_TIMES
from jobrunner.actors.features.upgrades.upgrades import Upgrades
from jobrunner.actors.features.webhooks import forget_webhooks
from jobrunner.actors.keeping.census import CensusTaker
from jobrunner.actors.keeping.charts import ChartKeeper
from jobrunner.actors.keeping.cleaning import clear_scratch, sweep
from jobrunner.actors.keeping.deletions import Deletions
from jobrunner.actors.keeping.file_moves import FileMoves, MoveTerms
from jobrunner.actors.keeping.retention import Retention
from jobrunner.actors.keeping.upkeep import Upkeep
from jobrunner.actors.recovery import recover
from jobrunner.actors.shared import World
from jobrunner.actors.slots import Slots, WorkLimits
from jobrunner.actors.supervisor import KEPT_BYTES, Supervisor
from jobrunner.actors.tasks import Crew
from jobrunner.actors.timers import Timers
from jobrunner.core.features.schedules.schedules import Schedule
from jobrunner.core.features.turns.rates import RateLimit
from jobrunner.core.keeping.retention import RetentionTerms
from jobrunner.core.messages import Submit


class Terms(Struct, frozen=True, kw_only=True):
    """The limits of this room: ``drain_s`` for stages at the end, ``retention`` of what is over,
    ``kept_bytes`` for jobs that are remembered as they stand, ``schedules`` are those of the
    settings. Without ``seals`` no notification is sent."""

    limits: WorkLimits = WorkLimits()
    resources: Mapping[str, int] = {}
    rates: Mapping[str, RateLimit] = {}
    rate_hold_s: float = HOLD_MOST_S
    rate_holds: int = HOLD_TIMES
    origins: Mapping[str, str] = {}
    drain_s: float = 30
    retention: RetentionTerms = RetentionTerms()
    kept_bytes: int = KEPT_BYTES
    seals: Seals | None = None
    schedules: tuple[Schedule, ...] = ()
    families: FamilyLimits = FamilyLimits()
    moves: MoveTerms = MoveTerms()


@asynccontextmanager
async def working(world: World, terms: Terms) -> AsyncIterator[Facade]:
    """Recover what died, then let jobs move; on leaving drain."""
    world.rates.begin(terms.rates, world.registry.stages.values())
    world.rates.hold_most_s, world.rates.hold_times = terms.rate_hold_s, terms.rate_holds
    crew, stages = (Crew(world.clock, world.say, world.loss.give_up) for _ in range(2))
    supervisor = Supervisor(world, terms.kept_bytes)
    timers = Timers(world, supervisor.tell)
    facade = _assembled(world, terms, crew, stages, supervisor, timers)
    try:
        await _recover(world, crew, facade)
        crew.keep(timers.run)
        crew.keep(facade.bulks.run)
        if facade.families.are_declared:
            crew.keep(facade.families.run)
        crew.keep(partial(facade.deliveries.run, crew))
        crew.keep(partial(forget_webhooks, world, terms.retention.keys_s))
        crew.keep(facade.retention.run)
        if world.meter.charts is not None:
            crew.keep(facade.charts.run)
        if world.surroundings.bucket is not None:
            crew.keep(facade.file_moves.run)
        crew.keep(partial(facade.dispatcher.run, crew))
        await facade.schedules.begin(crew)
        facade.upgrades.resume()
        try:
            yield facade
        finally:
            with anyio.CancelScope(shield=True):
                await facade.drain()
                await stages.gone()
                await facade.charts.close()
    finally:
        with anyio.CancelScope(shield=True):
            await crew.close()


def _assembled(
    world: World, terms: Terms, crew: Crew, stages: Crew, supervisor: Supervisor, timers: Timers
) -> Facade:
    """Make each part, and tell it of what follows commits."""
    resources = dict(terms.resources)
    slots = Slots(terms.limits, resources, world.rates, world.surroundings.elsewhere)
    dispatcher = Dispatcher(world, slots, supervisor.tell)
    world.turns.on_free = dispatcher.nudge

    async def submit(child: Submit) -> Answer:
        return await submissions.submit(child)

    bearing = partial(Bearing, world, submit, terms.families)
    attempts = RunningAttempts(world, crew, stages, supervisor, dispatcher, bearing)
    deliveries = Deliveries(world, world.surroundings.outlets.tell, terms.seals)
    families = Families(world, supervisor, deliveries.note)
    loans = Loans(world, dispatcher, slots, attempts.over)
    abandonments = Abandonments(world, crew, attempts)
    listeners = _listeners(
        supervisor, attempts, abandonments, dispatcher, timers, deliveries, families, loans
    )
    consequences = Consequences(world, listeners)
    supervisor.begin(crew, consequences, loans, lambda: dispatcher.backlog)
    submissions = Submissions(world, consequences, dispatcher, loans)
    resumed = partial(_look_again, world, timers, dispatcher)
    deletions = Deletions(world, supervisor)
    bulks = Bulks(world, supervisor, deletions, submissions, terms.limits)
    return Facade(
        world=world,
        limits=Limits(world, slots, resources, terms.origins, dispatcher.nudge),
        supervisor=supervisor,
        dispatcher=dispatcher,
        submissions=submissions,
        batches=Batches(world, submissions, bulks, deliveries.note),
        bulks=bulks,
        claims=Claims(world, supervisor),
        deletions=deletions,
        families=families,
        deliveries=deliveries,
        retention=Retention(world, terms.retention, supervisor.reread),
        upgrades=Upgrades(world, supervisor, crew, terms.limits),
        upkeep=Upkeep(world),
        file_moves=FileMoves(world, terms.moves),
        schedules=Schedules(world, Firings(world, submissions, supervisor.ask), terms.schedules),
        census=CensusTaker(world, terms.retention),
        overview=Overview(world.watchers, world.clock),
        charts=ChartKeeper(world),
        pausing=Pausing(world.pauses, world.clock, world.write, resumed),
        drain=Drain(world, supervisor, attempts, dispatcher, deliveries, terms.drain_s),
    )


def _listeners(
    supervisor: Supervisor,
    attempts: RunningAttempts,
    abandonments: Abandonments,
    dispatcher: Dispatcher,
    timers: Timers,
    deliveries: Deliveries,
    families: Families,
    loans: Loans,
) -> Listeners:
    """Name who hears of what follows a commit."""
    return Listeners(
        kept=supervisor.keep,
        unwritten=loans.unwritten,
        start=attempts.start,
        stop=attempts.stop,
        abandoned=abandonments.note,
        sent_files=attempts.clear_away,
        line=dispatcher.line_changed,
        timer=timers.note,
        outbox=deliveries.note,
        family=families.note,
        reread=supervisor.reread,
    )


def _look_again(world: World, timers: Timers, dispatcher: Dispatcher) -> None:
    """Go on after a resume: late timers fire, and whoever waits for a slot or for work is looked at
    again."""
    timers.note(0)
    world.watchers.work_arrived()
    dispatcher.nudge()


async def _recover(world: World, crew: Crew, facade: Facade) -> None:
    """Bring everything to what is true today, before anything new begins."""
    await clear_scratch(world)
    paused, turned = await world.reader.orders()
    world.pauses.load(paused)
    facade.limits.load(turned)
    await world.rates.load(world.reader)
    await world.turns.load(world.reader, world.registry.declared())
    await facade.dispatcher.begin()
    crew.start_soon(sweep, world)
    changed = await begin_rebinding(world)
    facade.dispatcher.suspect(await recover(world, facade.supervisor.deliver))
    await rebind(world, changed, facade.supervisor.tell)
