"""The 384 ordered pairs of statuses of the five lifecycles, each asked for by hand in the pure
core: a pair moves, enters again, repeats, or is refused and leaves no trace.

I1-I13 C1-C17 S1-S9 S15-S23 P1-P8 H1-H7 H20 H21 H36 H66
"""

from collections import Counter

import pytest

from jobrunner.core.decision import Decision, NoOp
from jobrunner.errors import Refused
from tests.driving import World, code
from tests.standing import LIFECYCLES, Transition, every_pair, only, stand, take

PAIRS = list(every_pair())


def ids(pair: tuple[str, str, str]) -> str:
    return "{}: {} to {}".format(*pair)


@pytest.mark.parametrize("pair", PAIRS, ids=ids)
def test_pair(pair: tuple[str, str, str]) -> None:
    """Exactly what the table says, seen in status, version, history and in everything stored."""
    workflow, source, target = pair
    world = stand(workflow, source)
    assert ask(world, workflow, target) == LIFECYCLES[workflow].outcome(source, target)


def ask(world: World, workflow: str, target: str) -> str:
    """Ask for the status, and name what became of it: by what is stored, not by what was said."""
    lifecycle, job_id = LIFECYCLES[workflow], only(world)
    before, hops, writes = world.jobs[job_id], len(world.hops), world.writes
    said = take(world, Transition(target, lifecycle.reports.get(target, {})))
    job, taken = world.jobs[job_id], [hop for _, _, hop in world.hops[hops:]]
    if isinstance(said, Refused | NoOp):
        assert (job, world.writes) == (before, writes), "only a decision may write"
        return named(said, before.status, target)
    assert isinstance(said, Decision)
    steps = [(hop.from_status, hop.to_status) for hop in taken]
    if not steps:
        assert (job.version, job.status) == (before.version, target)
        assert job.progress == lifecycle.reports[target]["progress"] != before.progress
        return "progresses"
    assert job.version == before.version + 1
    assert (steps, job.status) == ([(before.status, target)], target)
    return "moves" if target != before.status else "reenters"


def named(said: Refused | NoOp, source: str, target: str) -> str:
    if isinstance(said, NoOp):
        assert code(said) == "satisfied"
        return "stays"
    allowed = said.extra["allowed_next_statuses"]
    assert said.code == ("ILLEGAL_TRANSITION" if allowed else "TERMINAL_STATE")
    assert said.status == 409
    assert (said.extra["current_status"], said.extra["attempted_status"]) == (source, target)
    assert target not in allowed
    assert allowed == sorted(allowed)
    return "refused"


@pytest.mark.parametrize("workflow", LIFECYCLES)
def test_standing_is_standing_there(workflow: str) -> None:
    """Each state can be stood in, and is of the kind the table says."""
    lifecycle = LIFECYCLES[workflow]
    stood = {state: stand(workflow, state) for state in lifecycle.steps}
    found = {state: world.jobs[only(world)] for state, world in stood.items()}
    assert {state: job.status for state, job in found.items()} == {s: s for s in found}
    assert {state: job.kind for state, job in found.items()} == lifecycle.kinds
    assert set(lifecycle.definition.states) == set(found)


def test_kinds_of_the_forty() -> None:
    """11 states wait, 5 are lines, 9 are worked in, 3 are settled, 12 are final."""
    kinds = Counter(kind for one in LIFECYCLES.values() for kind in one.kinds.values())
    assert kinds == {"waiting": 11, "queued": 5, "active": 9, "settled": 3, "final": 12}


def test_totals() -> None:
    """70 pairs move, 3 enter again, 12 repeats succeed, 299 are refused."""
    outcomes = Counter((name, LIFECYCLES[name].outcome(a, b)) for name, a, b in PAIRS)
    assert len(PAIRS) == 384
    assert outcomes == {
        ("image-generation", "moves"): 7,
        ("image-generation", "refused"): 29,
        ("cutx", "moves"): 13,
        ("cutx", "refused"): 36,
        ("ss", "moves"): 7,
        ("ss", "stays"): 7,
        ("ss", "refused"): 35,
        ("asset-pattern", "moves"): 4,
        ("asset-pattern", "stays"): 4,
        ("asset-pattern", "progresses"): 1,
        ("asset-pattern", "refused"): 16,
        ("howera", "moves"): 39,
        ("howera", "reenters"): 3,
        ("howera", "refused"): 183,
    }
    by_outcome = Counter(outcome for (_, outcome), n in outcomes.items() for _ in range(n))
    assert (by_outcome["moves"], by_outcome["reenters"]) == (70, 3)
    assert by_outcome["stays"] + by_outcome["progresses"] == 12
    assert by_outcome["refused"] == 299
    repeats = Counter(name for name, a, b in PAIRS if a == b and outcome_of(name, a) == "refused")
    assert repeats == {"image-generation": 6, "cutx": 7, "howera": 12}


def outcome_of(workflow: str, state: str) -> str:
    return LIFECYCLES[workflow].outcome(state, state)
