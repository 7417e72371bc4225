"""What plugins bring: taken, or refused by name with the cure; one that does not fit costs its own
workflows and nobody else's."""

import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from jobrunner_hello import definition, greet

from jobrunner import Context, Definition, Done, PlainContext, Stage, stage
from jobrunner.stages import Registry
from jobrunner.stages.fitting import misfit
from tests.stages.unruly import definition_of, misbehave

MODULE = """
from jobrunner import stage, Done
from tests.stages.unruly import definition_of
{extra}
@stage("odd.stage")
async def work(ctx):
    return Done()

definition = definition_of("odd", "odd.stage")
number = 7
"""


async def awaiting(ctx: Context) -> Done:
    return Done()


def plain(ctx: PlainContext) -> Done:
    return Done()


class Called:
    async def __call__(self, ctx: Context) -> Done:
        return Done()


def plugin(folder: Path, name: str, entries: str, extra: str = "") -> None:
    """A distribution, as an installer leaves it."""
    (folder / f"{name}.py").write_text(MODULE.format(extra=extra))
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries.format(name=name))


STAGE = "[jobrunner.stages]\nodd.stage = {name}:work\n"
BOTH = STAGE + "[jobrunner.workflows]\nodd = {name}:definition\n"


def loaded() -> Registry:
    registry = Registry()
    registry.load()
    assert "hello" in registry.names(), "others are not touched"
    return registry


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_how_a_stage_runs_follows_from_its_function() -> None:
    assert Stage("a", awaiting).runs == "loop"
    assert Stage("a", Called()).runs == "loop"
    assert Stage("a", plain).runs == "process"
    assert Stage("a", plain, "thread").runs == "thread"
    assert stage("a", how="process")(awaiting).runs == "process"


def test_stages_that_cannot_run() -> None:
    assert misfit(Stage("a", awaiting)) == ""
    assert misfit(Stage("a", plain)) == ""
    assert "async def" in misfit(Stage("a", plain, "loop"))
    assert "plain functions" in misfit(Stage("a", awaiting, "thread"))
    assert "stands in a module" in misfit(Stage("a", lambda ctx: Done()))
    assert "no function" in misfit(Stage("a", 7))  # type: ignore[arg-type]
    wanting = Stage("a", awaiting, resources={"gpu": 2})
    assert misfit(wanting, {"gpu": 2}) == ""
    assert "[resources] gpu" in misfit(wanting, {"gpu": 1})
    assert "[resources] gpu" in misfit(wanting, {})


def test_what_a_stage_supplies_is_there_unless_the_operator_says_less() -> None:
    stage = Stage("a", plain, resources={"bench": 1}, supply={"bench": 2})
    for named, unfit in (({}, False), ({"bench": 5}, False), ({"bench": 0}, True)):
        registry = Registry(resources=named)
        registry.add(stage)
        assert ("a" in registry.refused["stages"]) == unfit
    assert "below 0" in misfit(Stage("a", plain, supply={"bench": -1}))


def test_a_workflow_is_refused_with_its_stage(site: Path) -> None:
    registry = Registry(resources={"gpu": 1})
    registry.add(Stage("unruly.stage", misbehave.run, resources={"gpu": 2}))
    registry.add(definition_of("stage", "unruly.stage"))
    assert registry.names() == []
    assert "asks for more gpu" in registry.refused["workflows"]["stage"][0]


def test_a_good_plugin(site: Path) -> None:
    plugin(site, "odd_good", BOTH)
    registry = loaded()
    assert "odd" in registry.names()
    assert not registry.refused["stages"]


def test_a_stage_that_two_plugins_bring(site: Path) -> None:
    plugin(site, "odd_one", BOTH)
    plugin(site, "odd_two", STAGE)
    reason = loaded().refused["workflows"]["odd"][0]
    assert "is brought twice, by odd_one and by odd_two; remove one of the plugins" in reason


@pytest.mark.parametrize(
    ("extra", "entries", "reason"),
    [
        ("raise RuntimeError('broken')", BOTH, "does not load: RuntimeError: broken"),
        ("raise RuntimeError('broken')", BOTH, ": raise RuntimeError('broken'))"),
        ("stage('x', colour=1)(print)", BOTH, ": stage('x', colour=1)(print))"),
        ("from datetime import nothing", BOTH, ": from datetime import nothing)"),
        ("import json\njson.loads('{')", BOTH, ": json.loads('{'))"),
        ("syntax error", BOTH, ": syntax error)"),
        ("raise SystemExit(1)", BOTH, "does not load: SystemExit: 1"),
        ("syntax error", BOTH, "does not load: SyntaxError"),
        ("import nowhere", BOTH, "does not load: ModuleNotFoundError"),
        ("JOBRUNNER_API = 2", BOTH, "upgrade jobrunner"),
        ("", BOTH.replace(":work", ":number"), "leads to a int, not to a Stage"),
        ("", BOTH.replace(":definition", ":number"), "leads to a int, not to a Definition"),
        ("", BOTH.replace(":work", ":missing"), "does not load: AttributeError"),
    ],
)
def test_plugins_that_do_not_fit(site: Path, extra: str, entries: str, reason: str) -> None:
    name = f"odd_{abs(hash((extra, entries)))}"
    plugin(site, name, entries, extra)
    registry = loaded()
    assert "odd" not in registry.names()
    assert any(reason in text for text in registry.refused["workflows"]["odd"]), registry.refused[
        "workflows"
    ]["odd"]
    sys.modules.pop(name, None)


@pytest.mark.parametrize("enabled", [("hello", "hello.greet"), ("hello",)])
def test_only_what_is_enabled_is_loaded(site: Path, enabled: tuple[str, ...]) -> None:
    """The name of a workflow is enough: its stages come with it."""
    plugin(site, "odd_off", BOTH, "raise RuntimeError")
    registry = Registry()
    registry.load(enabled)
    assert list(registry.stages) == ["hello.greet"]
    assert (registry.names(), registry.refused["workflows"], registry.refused["stages"]) == (
        ["hello"],
        {},
        {},
    )
    assert "odd" in entry_points(group="jobrunner.workflows").names


def test_other_limits_change_nothing_else_of_a_declaration() -> None:
    registry = Registry()
    registry.add(greet)
    hello = definition.workflow, definition.functions, definition.structs
    registry.add(Definition(*hello, was={"before": "params"}))
    registry.requote("hello", open_jobs=7)
    found = registry.current("hello")
    assert found is not None
    assert (found.workflow.quota.open_jobs, found.was) == (7, {"before": "params"})
