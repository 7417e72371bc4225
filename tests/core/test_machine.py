"""Random histories of a few jobs of one lifecycle: everybody asks for everything, callbacks come
late, twice and changed, clocks run out, stages end in every way, the service dies.

After every step the laws hold (``laws``), and what they cannot see in one decision is looked at
here, over all that was ever written: money, attempts, ends, replays. Whatever has happened, a job
that is left alone comes to rest.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jobrunner.core.decision import Decision, NoOp, StartStage, StopStage
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import (
    Advance,
    Claim,
    Do,
    Ended,
    Message,
    Move,
    Pause,
    Recovered,
    Resume,
    Supersede,
)
from jobrunner.errors import Refused
from tests.core import wishes
from tests.core.homeward import MOODS, Mood, homeward, next_event
from tests.core.laws import lawful, standing
from tests.core.workshop import RELAY, WORKSHOP
from tests.driving import ADA, ADMIN, BALANCE, EVE, Said, World, bound, varied
from tests.standing import LIFECYCLES, message_of

Order = tuple[str, dict[str, Any]]

ORDERS: dict[str, tuple[Order, ...]] = {
    "image-generation": (
        ("image", {"prompt": "a lighthouse"}),
        ("image", {"prompt": "a boat"}),
        ("image", {"prompt": "gore"}),
    ),
    "cutx": (
        ("copy", {"product_id": "lamp-7"}),
        ("static_ad", {"product_id": "lamp-7"}),
        ("ugc_video", {"product_id": "lamp-7"}),
        ("scrape", {"url": "https://example.org"}),
    ),
    "ss": (
        ("work", {"requirement": "Sum the sales"}),
        ("work", {"requirement": " Sum  the sales "}),
        ("work", {"requirement": "Sum", "answers": {"region": "north"}}),
    ),
    "asset-pattern": (("generation", {}), ("export", {})),
    "howera": (("video", {}),),
    "workshop": (("chair", {}), ("kit", {"name": "kit"}), ("chair", {"wood": "ivory"})),
    "relay": (("team", {}),),
}
LISTED: dict[str, dict[str, Any]] = {
    "image-generation": {"blocked_words": ["lighthouse"]},
    "workshop": {"banned": ["oak"]},
}
SHIPPED = {name: lifecycle.definition for name, lifecycle in LIFECYCLES.items()}
OUTSIDE: dict[str, Definition] = {**SHIPPED, "workshop": WORKSHOP, "relay": RELAY}
JOBS_MAX = 4

some = st.integers(0, 2**20)
whose = st.sampled_from((ADA, ADA, EVE, ADMIN))
few = st.integers(0, JOBS_MAX - 1)


class History(RuleBasedStateMachine):
    """``at_ends`` keeps how long the history of a job was when it came to its end; ``at_work`` how
    many stages the stage host was told to run for it."""

    name: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.submitted: list[tuple[Actor, Order, str]] = []
        self.accepted: list[tuple[str, Move]] = []
        self.at_ends: dict[str, int] = {}
        self.at_work: Counter[str] = Counter()

    @initialize(in_house=st.booleans(), balance=st.sampled_from((3, 25, 100)), pick=some)
    def begin(self, in_house: bool, balance: int, pick: int) -> None:
        """One job, and for the shipped lifecycles another one somewhere along its way."""
        definition = OUTSIDE[self.name]
        self.world = World(bound(definition) if in_house else definition, balance)
        self.submit(ADA, pick, "", False)
        if self.name in SHIPPED:
            first, *steps = chosen(iter(LIFECYCLES[self.name].steps.values()), pick)
            said = self._submit(ADMIN, (first.job_type, first.params), f"key-{pick}")
            if isinstance(said, Decision):
                for step in steps:
                    self._tell(self.world.jobs[said.after.id], message_of(step))

    # ------------------------------------------------------------ submissions

    @precondition(lambda self: len(self.world.jobs) < JOBS_MAX)
    @rule(
        actor=whose, pick=some, key=st.sampled_from(("", "", "key-1", "key-2")), later=st.booleans()
    )
    def submit(self, actor: Actor, pick: int, key: str, later: bool) -> None:
        order = chosen(iter(ORDERS[self.name]), pick)
        said = self._submit(actor, order, key, self.world.now + 60_000 if later else None)
        if isinstance(said, Decision):
            self.submitted.append((actor, order, key))

    @precondition(lambda self: any(key for _, _, key in self.submitted))
    @rule(pick=some)
    def submit_again(self, pick: int) -> None:
        """A client's own key: the old job and nothing written, unless a failure freed the key."""
        keyed = [one for one in self.submitted if one[2]]
        actor, order, key = keyed[pick % len(keyed)]
        freed = self.world.definition.workflow.recipe.freed
        free = any(job.status in freed for job in self.world.jobs.values())
        writes = self.world.writes
        said = self._submit(actor, order, key)
        if not free:
            assert isinstance(said, NoOp), f"{key} is known: {said!r}"
            assert said.snapshot.user_id == actor.name
            assert self.world.writes == writes

    def _submit(self, actor: Actor, order: Order, key: str, run_at: int | None = None) -> Said:
        before = self._written()
        job_type, params = order
        said = self.world.submit(job_type, params, actor=actor, key=key or None, run_at=run_at)
        lawful(self.world.definition, None, Advance(), said)
        if isinstance(said, Decision):
            for other in said.also:
                lawful(self.world.definition, other.before, Supersede(said.after.id), other)
        else:
            assert self._written() == before, "only a decision may write"
        return said

    # ------------------------------------------------------------ wishes

    @precondition(lambda self: self.world.jobs)
    @rule(which=few, pick=some)
    def by_hand(self, which: int, pick: int) -> None:
        self._wish(which, pick, wishes.moves)

    @precondition(lambda self: self.world.jobs)
    @rule(which=few, pick=some)
    def command(self, which: int, pick: int) -> None:
        self._wish(which, pick, wishes.commands)

    @precondition(lambda self: self.world.jobs)
    @rule(which=few, pick=some)
    def edit(self, which: int, pick: int) -> None:
        self._wish(which, pick, lambda definition, job: wishes.edits(definition))

    @precondition(lambda self: self.world.jobs)
    @rule(which=few, pick=some)
    def outside(self, which: int, pick: int) -> None:
        self._wish(which, pick, lambda definition, job: wishes.from_outside())

    @precondition(lambda self: self.world.jobs)
    @rule(which=few, pick=some)
    def inside(self, which: int, pick: int) -> None:
        self._wish(which, pick, lambda definition, job: wishes.from_inside(job))

    @precondition(lambda self: self.world.jobs)
    @rule(which=few, pick=some)
    def declared(self, which: int, pick: int) -> None:
        """As ``by_hand``, along the table."""

        def along(definition: Definition, job: Snapshot) -> Iterator[Message]:
            for message in wishes.moves(definition, job):
                if isinstance(message, Move) and message.to in definition.table[job.status]:
                    yield message
            yield Advance()

        self._wish(which, pick, along)

    def _wish(
        self, which: int, pick: int, kind: Callable[[Definition, Snapshot], Iterator[Message]]
    ) -> None:
        job = self._job(which)
        self._tell(job, chosen(kind(self.world.definition, job), pick))

    # ------------------------------------------------------------ callbacks

    @precondition(lambda self: self.world.jobs)
    @rule(which=few, pick=some, event=st.integers(1, 3), late_s=st.sampled_from((0, 0, 0, 5)))
    def callback(self, which: int, pick: int, event: int, late_s: int) -> None:
        """Fresh, or under an id that was heard before, now or as if it had happened earlier."""
        job = self._job(which)
        targets = self.world.definition.table[job.status]
        every = [one for one in wishes.moves(self.world.definition, job) if isinstance(one, Move)]
        likely = [one for one in every if one.to in targets]
        said = chosen(iter(likely if likely and pick % 3 else every), pick)
        fields = {name: getattr(said.report, name) for name in said.report.__struct_fields__}
        at = self.world.now - 1000 * late_s
        told = self.world.called_back(f"event-{event}", said.to, at, **fields)
        known = self.world.events.get((job.id, f"event-{event}"))
        verdict = self._tell(job, told)
        assert told.event is not None
        if known is not None and known.digest != told.event.digest:
            assert isinstance(verdict, Refused), "an event id says one thing only"
            assert verdict.code in ("EVENT_ID_PAYLOAD_MISMATCH", "VALIDATION_ERROR")
        if isinstance(verdict, Decision):
            self.accepted.append((job.id, told))

    @precondition(lambda self: self.accepted)
    @rule(pick=some)
    def replay(self, pick: int) -> None:
        """A callback that was accepted, word by word: known, and nothing is written."""
        job_id, message = self.accepted[pick % len(self.accepted)]
        before = self._written()
        said = self.world.tell(job_id, message)
        assert isinstance(said, NoOp)
        assert said.name == "event_replayed"
        assert self._written() == before

    # ------------------------------------------------------------ what happens by itself

    @precondition(lambda self: self.world.jobs)
    @rule(which=few, mood=st.sampled_from(MOODS))
    def go_on(self, which: int, mood: Mood) -> None:
        """The next thing that would happen without anybody's doing."""
        job = self._job(which)
        if message := next_event(self.world.definition, job, mood):
            self._pass_time(message)
            self._tell(job, message)

    @precondition(lambda self: self.world.jobs)
    @rule(which=few, mood=st.sampled_from(MOODS))
    def left_alone(self, which: int, mood: Mood) -> None:
        """Every job that waits for no person ends."""
        self._homeward(self._job(which), mood)

    @precondition(lambda self: self.world.jobs)
    @rule(which=few, how=st.sampled_from((Pause, Pause, Resume, Resume, Resume)), whose=whose)
    def hold_back(self, which: int, how: type[Pause] | type[Resume], whose: Actor) -> None:
        self._tell(self._job(which), how(whose, "because"))

    @precondition(lambda self: self.world.jobs)
    @rule()
    def crash(self) -> None:
        """What ran here died with the process; the next one is told so, job by job."""
        died = [job for job in self.world.jobs.values() if running_here(job)]
        for job in died:
            self._tell(job, Recovered(alone=len(died) == 1))

    @precondition(lambda self: self.name in LISTED)
    @rule(listed=st.booleans())
    def list_changes(self, listed: bool) -> None:
        """What was allowed when it was asked for may be forbidden when it is picked up."""
        usual = OUTSIDE[self.name].workflow.settings
        self.world.definition = varied(
            self.world.definition, settings=LISTED[self.name] if listed else usual
        )

    def teardown(self) -> None:
        if hasattr(self, "world"):
            for job in list(self.world.jobs.values()):
                self._homeward(job, "hangs")
            self.everything_adds_up()

    def _homeward(self, job: Snapshot, mood: Mood) -> None:
        def tell(message: Message) -> tuple[Snapshot, object]:
            self._pass_time(message)
            said = self._tell(self.world.jobs[job.id], message)
            return self.world.jobs[job.id], said

        for _ in homeward(self.world.definition, job, mood, tell):
            pass

    # ------------------------------------------------------------ telling

    def _tell(self, job: Snapshot, message: Message) -> Said:
        before = self._written()
        said = self.world.tell(job.id, message)
        self._judge(job, message, said, before)
        if isinstance(message, Do | Claim) and isinstance(said, Decision):
            self._ask_again(job.id, message)
        return said

    def _judge(self, job: Snapshot, message: Message, said: Said, before: Any) -> None:
        lawful(self.world.definition, job, message, said)
        if isinstance(said, Decision):
            self._perform(job, message, said)
        else:
            assert self._written() == before, f"{message} was answered {said!r}, and wrote"

    def _perform(self, job: Snapshot, message: Message, decision: Decision) -> None:
        """As the stage host sees it: told to start and to stop, never two for one job."""
        if isinstance(message, Ended | Recovered):
            self.at_work[job.id] -= 1
        for effect in decision.effects:
            self.at_work[job.id] += isinstance(effect, StartStage)
            self.at_work[job.id] -= isinstance(effect, StopStage)
        assert self.at_work[job.id] == running_here(decision.after), "one stage for one job"

    def _ask_again(self, job_id: str, message: Message) -> None:
        """A command whose answer was lost is sent again: no edge, no credit, no attempt more;
        unless it led to where the same word means a further step."""
        world, job = self.world, self.world.jobs[job_id]
        if isinstance(message, Do) and world.definition.commands[message.command].walks.get(
            job.status
        ):
            return
        before = (len(world.hops), len(world.ledger), len(world.attempts))
        lawful(world.definition, job, message, world.tell(job_id, message))
        after = (len(world.hops), len(world.ledger), len(world.attempts))
        assert after == before, f"{message} had an effect twice"

    def _written(self) -> Any:
        return self.world.writes, tuple(self.world.jobs.values()), len(self.world.keys)

    def _job(self, which: int) -> Snapshot:
        jobs = list(self.world.jobs.values())
        return jobs[which % len(jobs)]

    def _pass_time(self, message: Message) -> None:
        self.world.now = max(self.world.now, getattr(message, "due_at", 0))

    # ------------------------------------------------------------ what must hold

    @invariant()
    def everything_adds_up(self) -> None:
        """I13 I40 C16 C38 P7 S37 H21: over all that was written, money, ends, attempts."""
        if not hasattr(self, "world"):
            return
        for job in self.world.jobs.values():
            standing(self.world.definition, job)
            self._money(job)
            self._ends(job)
            self._attempts(job)

    def _money(self, job: Snapshot) -> None:
        entries = [entry for one, entry in self.world.ledger if one == job.id]
        total = sum(BALANCE[entry.kind] * entry.amount for entry in entries)
        assert total in (0, -job.cost), f"{job.id} has cost {-total}, and its price is {job.cost}"
        once = Counter((entry.run_id, entry.kind) for entry in entries)
        assert not once or max(once.values()) == 1, "money of a kind moves once a run"

    def _ends(self, job: Snapshot) -> None:
        length = len(self.world.path(job.id))
        if job.kind == "final":
            assert self.at_ends.setdefault(job.id, length) == length, "history after the end"

    def _attempts(self, job: Snapshot) -> None:
        recorded = [one for one in self.world.tried(job.id) if one.status != "ended"]
        assert recorded == ([job.attempt] if job.attempt else []), "one open attempt at the most"


def running_here(job: Snapshot) -> bool:
    attempt = job.attempt
    return attempt is not None and attempt.status == "running" and attempt.holder == "stage"


def chosen(wishes: Iterator[Any], pick: int) -> Any:
    every = list(wishes)
    return every[pick % len(every)]


SHORT = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(SHORT, max_examples=2_000, stateful_step_count=80, derandomize=False)


def history_of(name: str) -> type[History]:
    return type("History", (History,), {"name": name})


@pytest.mark.parametrize("name", ORDERS)
def test_history(name: str) -> None:
    """C15 C16 C38 I13 I40 P7 P8 S15 S36 S37 H20 H21 H34: the laws hold along every history."""
    run_state_machine_as_test(history_of(name), settings=SHORT)


@pytest.mark.long
@pytest.mark.parametrize("name", ORDERS)
def test_long_history(name: str) -> None:
    run_state_machine_as_test(history_of(name), settings=LONG)
