"""Whatever crashes and repeats: the six workflows end, and the money adds up."""

import gc
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner import Done, PlainContext, RetryableFailure, Stage
from jobrunner.core.declaration.workflow import Definition
from jobrunner.testing import CALM, Broken, Faults, in_house, prove, simulate
from jobrunner.testing.kit.prove import Proof
from jobrunner.testing.simulation.loop import SimLoop
from jobrunner.testing.simulation.story import UUID
from tests.core.workshop import RELAY, WORKSHOP
from tests.testing.defects import DEFECTS, called_by_its_name

ROOT = Path(__file__).resolve().parents[2]
REBOUND = Faults(crashes=8, restarts=3, rebinds=True)
UPGRADED = Faults(crashes=8, restarts=3, upgrades=True)
NAMES = ("asset_pattern", "cutx", "hello", "howera", "image_generation", "ss")


def declared(name: str, where: str) -> Definition:
    definition: Definition = import_module(f"jobrunner_{name}").definition
    return in_house(definition) if where == "in the house" else definition


@pytest.mark.parametrize("where", ["in the house", "outside"])
@pytest.mark.parametrize("name", NAMES)
def test_whatever_happens_it_ends(name: str, where: str, whatever_happens: Any) -> None:
    """I13 I40 C15 C16 C38 P7 S36 H20 H21: through crashes, replays and full disks."""
    proof = whatever_happens(declared(name, where), seeds=range(3))
    assert proof.lives > proof.seeds, "nothing ever crashed"
    assert not proof.aside


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seeds", [3, pytest.param(100, marks=pytest.mark.long)])
def test_whatever_is_bound_otherwise_at_each_start_it_ends(name: str, seeds: int) -> None:
    """P36: to the house and to outside, with a crash in the middle of it too."""
    proof = prove(declared(name, "outside"), seeds=range(seeds), faults=REBOUND)
    assert proof.lives > proof.seeds, "nothing ever crashed"
    assert proof.stages, "nobody worked in the house"
    assert not proof.aside


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seeds", [3, pytest.param(100, marks=pytest.mark.long)])
def test_whatever_version_each_start_finds_it_ends(name: str, seeds: int) -> None:
    """Jobs are moved to it in the middle of everything, crashes included; and whatever was decided
    is on record, and decided so again."""
    proof = prove(declared(name, "in the house"), seeds=range(seeds), faults=UPGRADED)
    assert proof.lives > proof.seeds, "nothing ever crashed"
    assert not proof.aside


@pytest.mark.parametrize("definition", [WORKSHOP, RELAY], ids=["workshop", "relay"])
def test_a_workflow_that_the_kit_was_not_made_for(definition: Definition) -> None:
    prove(in_house(definition), seeds=range(4))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_long(name: str) -> None:
    """1,000 seeds in the house and 1,000 outside; every declared edge is taken by some job."""
    seeds = range(10_000, 11_000)
    here = prove(declared(name, "in the house"), seeds=seeds, steps=120)
    outside = prove(declared(name, "outside"), seeds=seeds, steps=120)
    assert not here.aside
    assert not outside.aside
    assert not set(here.untaken) & set(outside.untaken)


def test_the_same_seed_is_the_same_trace() -> None:
    """In one process, and in others: order, times, ids, every line that was said."""
    definition = declared("cutx", "in the house")
    first = simulate(definition, seed=3)
    assert simulate(definition, seed=3).digest == first.digest
    assert simulate(definition, seed=4).digest != first.digest
    script = (
        "from tests.testing.test_prove import declared, simulate\n"
        "print(simulate(declared('cutx', 'in the house'), seed=3).digest)"
    )
    for salt in ("1", "2"):
        said = subprocess.run(
            [sys.executable, "-c", f"import tests.conftest\n{script}"],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": salt, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        )
        assert said.stdout.strip() == first.digest


def test_without_faults_nobody_dies() -> None:
    proof = prove(declared("hello", "outside"), seeds=range(3), faults=CALM)
    assert proof.lives == proof.seeds


OFTEN = Faults(crashes=20, restarts=0, full=0, unknown=0, slow=0, jumps=False)
IN_THE_HOUSE = ("stage started twice", "no idempotency key")


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where processes die often and much is asked of them, the rarest of these, for which one of a
    handful of commits must be the last, shows in one seed of twenty."""
    broken = search(monkeypatch, name, range(100), steps=300, faults=OFTEN)
    assert broken is not None, f"{name}: not found in 100 seeds"
    told = str(broken)
    assert f"seed {broken.trace.seed} (trace {broken.trace.digest}" in told
    assert "what happened " in told
    assert "starts  life=1" in "\n".join(broken.trace.lines)
    assert UUID.search(told) is None, "jobs have numbers that can be read"


@pytest.mark.long
@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found_by_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an author would look for it: within 1,000 seeds, with nothing set."""
    assert search(monkeypatch, name, range(20_000, 21_000)) is not None


def search(monkeypatch: pytest.MonkeyPatch, name: str, seeds: range, **given: Any) -> Broken | None:
    """The first seed under which the planted defect is called by its name."""
    DEFECTS[name][0](monkeypatch)
    definition = declared("cutx", "in the house" if name in IN_THE_HOUSE else "outside")
    for seed in seeds:
        try:
            simulate(definition, seed=seed, **given)
        except Broken as broken:
            if called_by_its_name(name, broken.trace.faults):
                return broken
    return None


def test_nothing_of_a_simulation_stays() -> None:
    """However many seeds are tried, and however their lives end."""
    before = loops()
    prove(declared("hello", "in the house"), seeds=range(5), faults=OFTEN)
    assert loops() <= before


def loops() -> int:
    gc.collect()
    return sum(isinstance(one, SimLoop) for one in gc.get_objects())


def test_a_proof_of_nothing_is_refused() -> None:
    with pytest.raises(AssertionError, match="nothing is proved"):
        prove(declared("hello", "outside"), seeds=range(2), steps=0)


def test_a_faulty_workflow_is_refused_with_its_reasons() -> None:
    definition = declared("hello", "outside")
    workflow = definition.workflow
    cut = type(workflow)(
        **{
            **{name: getattr(workflow, name) for name in workflow.__struct_fields__},
            "edges": workflow.edges[:2],
        }
    )
    with pytest.raises(AssertionError, match="refused"):
        prove(Definition(cut, definition.functions, definition.structs), seeds=range(1))


def test_what_a_proof_tells() -> None:
    proof = prove(declared("hello", "outside"), seeds=range(3), faults=Faults(crashes=2))
    assert isinstance(proof, Proof)
    assert set(proof.jobs) <= {"greeted", "failed"}
    assert proof.seeds == 3
    assert proof.stages


AUTHORS = """
from jobrunner_hello import definition, greet

def test_it_ends(whatever_happens):
    whatever_happens(definition, [greet], seeds=range(3))

def test_it_does_not(whatever_happens, monkeypatch):
    monkeypatch.setattr("jobrunner.testing.simulation.laws.rests", lambda job: False)
    monkeypatch.setattr("jobrunner.testing.simulation.simulation.ROUNDS_MAX", 5)
    monkeypatch.setattr("jobrunner.testing.simulation.laws.WAITING", "SELECT uid FROM jobs")
    whatever_happens(definition, [greet], seeds=range(4, 9))
"""


def typed(folder: Path, *arguments: str) -> str:
    """What pytest prints to an author who types this, beside the tests."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "jobrunner.testing.kit.fixture",
        *arguments,
    ]
    ran = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
        text=True,
    )
    return ran.stdout + ran.stderr


def test_an_author_writes_three_lines(tmp_path: Path) -> None:
    """H24: the plugin brings the fixture. A failure names the seed, what did not hold, what
    happened before, and the command that shows it again: the same trace, and all of its lines."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_mine.py").write_text(AUTHORS)
    said = typed(tmp_path, "tests")
    assert "1 failed, 1 passed" in said, said
    assert "seed 4 breaks what must hold:" in said
    assert re.search(r"- job \d+ is still \w+ after \d+ h, and waits for nobody", said)
    assert "what happened to job " in said
    assert "jobrunner/testing/kit/prove.py" not in said, "an author is shown a file of ours"
    trace = re.findall(r"seed 4 \(trace (\w+)\)", said)
    command = re.findall(r"to see it again: pytest (.*)", said)[0]
    assert command == "tests/test_mine.py::test_it_does_not --jobrunner-seed 4"
    again = typed(tmp_path, *shlex.split(command))
    assert re.findall(r"seed 4 \(trace (\w+)\)", again) == trace, again
    assert "Captured stdout call" in again
    assert "0.000 s          starts  life=1" in again


def plain(ctx: PlainContext[Any]) -> Done:
    """A stage that runs in a process of its own; here, in one moment."""
    ctx.progress(10, "begun")
    text = ctx.once("text", lambda: f"page of {ctx.params.name}")
    ctx.save("page.txt", text.encode(), asset_type="page", artifact="page_uri")
    if ctx.attempt == 1:
        raise RetryableFailure("NETWORK", "nobody answers")
    return Done(result={"text": text})


def test_a_plain_stage_is_simulated_too() -> None:
    """Not that it fails each time, and that nobody notices."""
    stage = Stage("hello.greet", plain)
    proof = prove(declared("hello", "outside"), [stage], seeds=range(6))
    assert proof.jobs["greeted"] > proof.jobs.get("failed", 0), proof


async def reaching(ctx: Any) -> Done:
    await anyio.connect_tcp("127.0.0.1", 1)
    return Done()


async def stuck(ctx: Any) -> Done:
    while True:
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(("work", "words"), [(reaching, "RealWorld"), (stuck, "Livelock")])
def test_what_ends_a_simulation_is_told_with_its_seed(work: Any, words: str) -> None:
    with pytest.raises(Broken) as broken:
        prove(declared("hello", "outside"), [Stage("hello.greet", work)], seeds=range(5))
    assert words in str(broken.value)
    assert re.search(r"seed \d breaks", str(broken.value))
    assert "to see it again: simulate(" in str(broken.value)
