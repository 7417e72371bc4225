"""Places, a line before them, and how long somebody may wait in it: with a clock moved by hand."""

import heapq
from collections.abc import Callable
from itertools import count
from random import Random

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrunner.http.front.admission import STRETCH, Admission
from jobrunner.http.front.waiting import Turn

PATIENCE_S = 0.1


class World:
    """A clock, and what is to be done by it."""

    def __init__(self) -> None:
        self.at = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def now(self) -> int:
        return int(self.at * 1000)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.at + delay_s, next(self._numbers), call))

    def pass_by(self, seconds: float) -> None:
        until = self.at + seconds
        while self._due and self._due[0][0] <= until:
            self.at, _, call = heapq.heappop(self._due)
            call()
        self.at = until

    @property
    def quiet(self) -> bool:
        return not self._due


class Client:
    def __init__(self, told: list[str], name: str) -> None:
        self.told = told
        self.name = name
        self.waited_s = -1.0

    def go_in(self) -> None:
        self.told.append(f"{self.name} in")

    def turn_away(self, waited_s: float) -> None:
        self.told.append(f"{self.name} away")
        self.waited_s = waited_s


@pytest.fixture
def world() -> World:
    return World()


def admission(world: World, places: int = 1, patience_s: float = PATIENCE_S) -> Admission:
    return Admission(world, places, patience_s, later=world.later)


def test_so_many_and_then_a_line_in_order(world: World) -> None:
    gate, told = admission(world, 2), list[str]()
    assert [gate.enter() for _ in range(3)] == [True, True, False]
    for name in "abc":
        gate.wait(Client(told, name))
    assert len(gate) == 3
    gate.leave()
    assert told == ["a in"]
    assert not gate.enter(), "whoever waits goes first"
    gate.leave()
    gate.leave()
    assert told == ["a in", "b in", "c in"]
    gate.leave()
    gate.leave()
    assert (gate.inside, len(gate)) == (0, 0)


def test_users_take_turns(world: World) -> None:
    gate, told = admission(world), list[str]()
    gate.enter()
    for name, whose in (("a1", "ada"), ("a2", "ada"), ("a3", "ada"), ("b1", "bob"), ("c1", "cy")):
        gate.wait(Client(told, name), whose)
    gate.leave()
    gate.wait(Client(told, "b2"), "bob")
    for _ in range(5):
        gate.leave()
    assert told == [f"{name} in" for name in ("a1", "b1", "c1", "a2", "b2", "a3")]


def test_without_places_there_is_no_limit(world: World) -> None:
    gate = admission(world, 0)
    assert all(gate.enter() for _ in range(10_000))


def test_without_patience_nobody_waits(world: World) -> None:
    gate, told = admission(world, 1, 0), list[str]()
    assert gate.enter()
    gate.wait(Client(told, "a"))
    assert told == ["a away"]
    assert world.quiet


def test_whoever_gave_up_is_passed_over(world: World) -> None:
    gate, told = admission(world), list[str]()
    gate.enter()
    clients = [Client(told, name) for name in "abc"]
    for one in clients:
        gate.wait(one)
    gate.forget(clients[0])
    gate.forget(clients[0])
    gate.leave()
    assert told == ["b in"]


def test_a_line_that_began_just_now_is_patient(world: World) -> None:
    """A stall of many times the patience turns nobody away, if afterwards the line goes down."""
    gate, told = admission(world), list[str]()
    gate.enter()
    for number in range(100):
        gate.wait(Client(told, str(number)))
    world.pass_by(PATIENCE_S * STRETCH)
    assert told == []
    for _ in range(101):
        gate.leave()
    assert told == [f"{number} in" for number in range(100)]
    world.pass_by(10)
    assert world.quiet


def test_a_line_that_never_ends_is_not(world: World) -> None:
    """And who is turned away has waited that little, not longer than it takes to look again."""
    gate, told = admission(world), list[str]()
    gate.enter()
    clients = []
    for number in range(1000):
        clients.append(Client(told, str(number)))
        gate.wait(clients[-1])
        world.pass_by(0.01)
    late = [one.waited_s for one in clients if one.waited_s >= 0][200:]
    assert len(late) > 700
    assert all(PATIENCE_S <= waited_s <= 1.3 * PATIENCE_S for waited_s in late)
    assert told == [f"{number} away" for number in range(len(told))]


def test_patience_comes_back_with_an_empty_line(world: World) -> None:
    gate, told = admission(world), list[str]()
    gate.enter()
    gate.wait(Client(told, "a"))
    world.pass_by(PATIENCE_S * STRETCH * 1.2)
    assert told == ["a away"]
    gate.wait(Client(told, "b"))
    world.pass_by(PATIENCE_S * STRETCH * 0.9)
    assert told == ["a away"]


def test_those_turned_away_together_leave_the_others_their_turn(world: World) -> None:
    gate, told = admission(world), list[str]()
    gate.enter()
    for number in range(1000):
        gate.wait(Client(told, str(number)))
    looks = []
    world.later(0, lambda: None)
    for _ in range(2000):
        before = len(told)
        world.pass_by(PATIENCE_S / 100)
        looks.append(len(told) - before)
    assert sum(looks) == 1000
    batches = []
    again = Admission(world, 1, PATIENCE_S, later=lambda delay, call: batches.append(call))
    again.enter()
    for number in range(1000):
        again.wait(Client(told, str(number)))
    world.at += 10
    before = len(told)
    batches.pop()()
    assert 0 < len(told) - before < 1000
    assert batches, "the rest has its turn after the others"


def test_another_reason_to_let_nobody_in(world: World) -> None:
    full, told = [True], list[str]()
    gate = Admission(world, 5, PATIENCE_S, lambda: full[0], world.later)
    assert not gate.enter()
    gate.wait(Client(told, "a"))
    world.pass_by(PATIENCE_S)
    assert told == []
    full[0] = False
    world.pass_by(PATIENCE_S)
    assert told == ["a in"], "nobody left, and yet it was looked at again"


@pytest.mark.parametrize("load", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("seed", range(5))
def test_below_capacity_nobody_is_turned_away(world: World, seed: int, load: float) -> None:
    """Arrivals in bursts, service in batches, and a stall of a quarter of a second now and then."""
    chance, told = Random(seed), list[str]()
    gate = admission(world, 64)
    work: list[None] = []

    def commit() -> None:
        for _ in work:
            gate.leave()
        work[:] = [None] * gate.inside
        stalls = chance.random() < 0.002 and load <= 0.5
        world.later(0.25 if stalls else max(len(work), 1) / 4000, commit)

    arrived = 0
    commit()
    while world.at < 20:
        world.pass_by(chance.expovariate(4000 * load / 20))
        for _ in range(chance.randrange(1, 40)):
            arrived += 1
            if not gate.enter():
                gate.wait(Client(told, "one"))
    assert arrived > 10_000
    assert not [one for one in told if one.endswith("away")]


@pytest.mark.parametrize("times", [1.2, 2, 5, 10])
@pytest.mark.parametrize("clients", [32, 200, 1000, 10_000])
def test_above_capacity_every_place_is_taken(world: World, times: float, clients: int) -> None:
    """Whatever the number of clients, who each ask again when they were answered: work never stops,
    everybody is answered, and refusals are as fast as promised and no more than that allows."""
    gate, told = admission(world, 64), list[str]()
    made, busy, waits = [0], [0], list[float]()

    class Asker(Client):
        def go_in(self) -> None:
            busy[0] -= 1

        def turn_away(self, waited_s: float) -> None:
            busy[0] -= 1
            waits.append(waited_s)

    def commit() -> None:
        done = gate.inside
        made[0] += done
        for _ in range(done):
            gate.leave()
        world.later(max(done, 1) / 4000, commit)

    commit()
    seconds = 5
    while world.at < seconds:
        world.pass_by(0.001)
        for _ in range(int(4 * times)):
            if busy[0] < clients and not gate.enter():
                busy[0] += 1
                gate.wait(Asker(told, "one"))
    assert made[0] >= 0.98 * 4000 * seconds
    assert len(waits) <= clients * seconds / PATIENCE_S
    late = sorted(waits)[int(len(waits) * 0.3) :]
    assert all(waited_s <= 1.3 * PATIENCE_S for waited_s in late[: len(late) // 2])


@pytest.mark.parametrize("clients", [200, 1000])
def test_somebody_calm_waits_a_moment_beside_any_number_of_anothers(
    world: World, clients: int
) -> None:
    """And the other is refused no later for it: that somebody's wait is short is no sign that the
    line goes down."""
    gate, told, waits = admission(world, 64), list[str](), list[float]()
    calm, calm_waits, flooding = Client([], "calm"), list[float](), [0]

    class Flood(Client):
        def go_in(self) -> None:
            flooding[0] -= 1

        def turn_away(self, waited_s: float) -> None:
            flooding[0] -= 1
            waits.append(waited_s)

    def commit() -> None:
        done = gate.inside
        for _ in range(done):
            gate.leave()
        world.later(max(done, 1) / 4000, commit)

    commit()
    came_at, calm.told = 0.0, ["calm in"]
    while world.at < 5:
        world.pass_by(0.001)
        if calm.told:
            calm_waits.append(world.at - came_at)
            came_at, calm.told = world.at, []
            if gate.enter():
                calm.told.append("calm in")
            else:
                gate.wait(calm, "calm")
        while flooding[0] < clients:
            flooding[0] += 1
            if gate.enter():
                flooding[0] -= 1
            else:
                gate.wait(Flood(told, "one"), "flood")
    assert calm.waited_s < 0, "and was never turned away"
    assert max(calm_waits) <= 2 * 64 / 4000
    late = sorted(waits)[int(len(waits) * 0.3) :]
    assert clients < 1000 or late
    assert all(waited_s <= 1.3 * PATIENCE_S for waited_s in late[: len(late) // 2])


@pytest.mark.anyio
async def test_whoever_is_called_off_gives_its_place_back(world: World) -> None:
    gate = admission(world)
    gate.enter()
    for goes_in_meanwhile in (False, True):
        turn = Turn(gate)
        gate.wait(turn)
        async with anyio.create_task_group() as group:
            group.start_soon(turn.come)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
            if goes_in_meanwhile:
                gate.leave()
        assert len(gate) == 0
    assert gate.inside == 0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("come"), st.sampled_from(["", "ada", "bob", "cy"])),
            st.tuples(st.sampled_from(["leave", "late"]), st.just("")),
            st.tuples(st.just("give up"), st.integers(0, 9)),
        ),
        max_size=60,
    )
)
def test_whoever_comes_or_gives_up_the_turns_are_kept(steps: list[tuple[str, str | int]]) -> None:
    """Beside a line for each user, in the order of their turns: nobody is forgotten or served
    twice, whoever goes in is the first of the user whose turn it is."""
    world, told, expected = World(), list[str](), list[str]()
    gate, lines, here = admission(world), dict[str, list[Client]](), list[Client]()
    gate.enter()

    def gone(client: Client) -> None:
        here.remove(client)
        for whose, line in [*lines.items()]:
            lines[whose] = [one for one in line if one is not client]
            if not lines[whose]:
                del lines[whose]

    for number, (step, which) in enumerate(steps):
        if step == "come":
            client = Client(told, str(number))
            gate.wait(client, str(which))
            lines.setdefault(str(which), []).append(client)
            here.append(client)
        elif step == "leave" and here:
            gate.leave()
            whose, line = next(iter(lines.items()))
            lines[whose] = lines.pop(whose)
            expected.append(f"{line[0].name} in")
            gone(line[0])
        elif step == "late":
            world.pass_by(2 * STRETCH * PATIENCE_S)
            expected += [f"{one.name} away" for one in here]
            lines.clear()
            here.clear()
        elif step == "give up" and here:
            client = here[int(which) % len(here)]
            gate.forget(client)
            gone(client)
        assert (told, len(gate), gate.inside) == (expected, len(here), 1)
