"""What a report may bring: whose it is to write, from where, and in which form."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from jobrunner.core.decision import Decision, StopStage
from jobrunner.core.declaration.artifacts import Listed, Shape, schema_of_shapes, unlike
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.core.messages import Checkpoint, Edit, Report
from jobrunner.errors import Refused
from tests.core.declared import SAMPLE, faults
from tests.core.workshop import WORKSHOP
from tests.driving import ADA, ADMIN, World, code, outside, varied

TEXT = Shape("string", at_least=1)
PAIR = Shape("array", at_least=2, items=(Shape("number"),))
PLAN = Shape("object", fields={"steps": (PAIR,), "note": (TEXT, Shape("integer"))})

FORMS: list[tuple[Shape, list[Any], list[Any]]] = [
    (Shape("string"), ["", " ", "a"], [0, None, [], {}, True]),
    (TEXT, ["a", " a "], ["", " \t\n", 1, ["a"]]),
    (Shape("string", at_least=3), ["abc"], ["ab", "   "]),
    (Shape("integer"), [0, -1, 2**60], [True, False, 1.0, "1"]),
    (Shape("number"), [0, 1.5], [True, "1"]),
    (Shape("boolean"), [True, False], [0, 1, "true"]),
    (Shape("object"), [{}, {"a": None}], [[], "a"]),
    (Shape("object", at_least=1), [{"a": None}], [{}]),
    (Shape("array"), [[], [1, "a"]], [{}, "ab"]),
    (PAIR, [[1, 2], [1.5, 2, 3]], [[1], [1, "2"], [1, True]]),
    (
        PLAN,
        [{"steps": [1, 2], "note": "a"}, {"steps": [1, 2], "note": 7, "more": []}],
        [{}, {"steps": [1, 2]}, {"steps": [1], "note": "a"}, {"steps": [1, 2], "note": ""}],
    ),
]


@pytest.mark.parametrize(("shape", "good", "bad"), FORMS)
def test_forms(shape: Shape, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert unlike(value, (shape,)) == "", value
    for value in bad:
        assert unlike(value, (shape,)), value
        assert unlike(value, ()) == ""
        assert unlike(value, (shape, *(Shape(one) for one in ALL_TYPES))) == "" or value is None


ALL_TYPES: tuple[Any, ...] = ("string", "number", "boolean", "object", "array")


def test_form_is_told_and_published() -> None:
    assert unlike(42, (TEXT, Shape("object"))) == (
        "42 is not a string that says something or an object"
    )
    assert "secret" not in unlike("secret", (Shape("object"),))
    assert schema_of_shapes((TEXT,)) == {"type": "string", "minLength": 1, "pattern": r"\S"}
    assert schema_of_shapes((PLAN, TEXT))["anyOf"][0] == {
        "type": "object",
        "required": ["steps", "note"],
        "properties": {
            "steps": {"type": "array", "minItems": 2, "items": {"type": "number"}},
            "note": {"anyOf": [schema_of_shapes((TEXT,)), {"type": "integer"}]},
        },
    }


def test_declaration_survives_its_storage() -> None:
    listing = (Listed("plan", (PLAN, TEXT), ("stage",), ("draft",)),)
    workflow = replace(SAMPLE, artifacts=listing, results={"*": (PLAN,)})
    assert faults(workflow) == ()
    assert msgspec.json.decode(msgspec.json.encode(workflow), type=Workflow) == workflow


PLANTED: dict[str, tuple[dict[str, Any], str, str]] = {
    "twice": ({"artifacts": (Listed("a"), Listed("a"))}, "duplicate", "artifact a"),
    "a state that is not": (
        {"artifacts": (Listed("a", states=("gone",)),)},
        "unknown-state",
        "artifact a: states",
    ),
    "from a final state": ({"artifacts": (Listed("a", states=("done",)),)}, "artifact", "final"),
    "a name nobody can say": ({"artifacts": (Listed("A b"),)}, "artifact", "no report can say"),
    "a size below 0": (
        {"artifacts": (Listed("a", (Shape("string", at_least=-1),)),)},
        "artifact",
        "at_least",
    ),
    "a size of a number": (
        {"artifacts": (Listed("a", (Shape("number", at_least=1),)),)},
        "artifact",
        "at_least",
    ),
    "fields of an array": (
        {"artifacts": (Listed("a", (Shape("array", fields={"b": (TEXT,)}),)),)},
        "artifact",
        "only an object",
    ),
    "items of an object, inside": (
        {"results": {"*": (Shape("object", fields={"b": (Shape("object", items=(TEXT,)),)}),)}},
        "artifact",
        "only an array",
    ),
    "a result of no job type": ({"results": {"nera": (TEXT,)}}, "job-type", "did you mean 'near'"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_fault_is_found(name: str) -> None:
    changes, rule, words = PLANTED[name]
    found = [fault for fault in faults(replace(SAMPLE, **changes)) if fault.rule == rule]
    assert any(words in fault.text for fault in found), found


def test_file_that_its_stage_may_not_name_is_a_fault() -> None:
    states = tuple(
        replace(one, produces="page") if one.name == "checking" else one for one in SAMPLE.states
    )
    for listed in (Listed("page", writers=("admin",)), Listed("page", (Shape("object"),))):
        workflow = replace(SAMPLE, states=states, artifacts=(listed,))
        assert [fault.rule for fault in faults(workflow)] == ["artifact"]


# ---------------------------------------------------------------- reports


def shop(*listed: Listed, results: dict[str, tuple[Shape, ...]] | None = None) -> World:
    return World(varied(WORKSHOP, artifacts=listed, results=results or {}))


def cutting(world: World, job_type: str = "chair") -> str:
    """A job whose first stage is at work: in the house, or outside for a kit."""
    job_id = world.born(job_type, {"name": job_type})
    assert code(world.do(job_id, "go")) == "moved"
    if job_type == "kit":
        assert code(world.claim(job_id)) == "moved"
    else:
        world.start(job_id)
    return job_id


def test_names_that_are_not_listed_are_free_to_workers_and_admins() -> None:
    world = shop()
    job_id = world.born()
    for report in ({"artifacts": {"any": 1}}, {"result": {"any": 1}}):
        said = world.move(job_id, "queued", ADA, **report)
        assert isinstance(said, Refused)
        assert (said.code, said.status) == ("VALIDATION_ERROR", 400)
        assert "only stage, workflow, admin may write it" in said.detail
    assert code(world.move(job_id, "queued", ADMIN, artifacts={"any": 1})) == "moved"
    job_id = cutting(world, "kit")
    said = world.callback(job_id, "e1", "refused", artifacts={"any": 1}, result={"any": 1})
    assert code(said) == "moved"


def test_writers_and_places() -> None:
    world = shop(
        Listed("wish", writers=("user",), states=("sketch",)),
        Listed("pieces", writers=("workflow",), states=("cutting",)),
    )
    job_id = world.born("kit")
    assert code(world.move(job_id, "queued", ADMIN, artifacts={"wish": 1})) == "VALIDATION_ERROR"
    assert code(world.move(job_id, "queued", ADA, artifacts={"pieces": 1})) == "VALIDATION_ERROR"
    assert code(world.move(job_id, "queued", ADA, artifacts={"wish": "red"})) == "moved"
    said = world.callback(job_id, "e1", "cutting", artifacts={"pieces": 4})
    assert isinstance(said, Refused)
    assert said.extra["errors"] == [
        {
            "path": "$.artifact_updates.pieces",
            "message": "it is written from cutting, not from queued",
        }
    ]
    assert code(world.callback(job_id, "e1", "cutting", artifacts={"wish": "red"})) == "moved"
    assert code(world.callback(job_id, "e2", "cut", artifacts={"pieces": 4})) == "moved"
    assert world.jobs[job_id].artifacts["wish"].version == 1


def test_what_a_guard_waits_for_counts_as_absent() -> None:
    """And the word of a guard goes before that of the form."""
    world = shop(Listed("pieces", (Shape("integer"),)), Listed("more", (Shape("integer"),)))
    job_id = cutting(world, "kit")
    before = world.jobs[job_id]
    wrongs: tuple[Any, ...] = ("", 0.5, [], {}, False)
    for wrong in wrongs:
        said = world.callback(job_id, "e1", "cut", artifacts={"pieces": wrong, "more": wrong})
        assert code(said) == "PIECES_MISSING"
        said = world.callback(job_id, "e1", "cut", artifacts={"pieces": 0, "more": wrong})
        assert code(said) == "VALIDATION_ERROR"
    assert world.jobs[job_id] is before


def test_progress_of_the_wrong_form_is_refused_as_well() -> None:
    """A repeat of the status brings what a move may bring."""
    world = shop(Listed("coat", (TEXT,)))
    job_id = cutting(world, "kit")
    world.callback(job_id, "e1", "cut", artifacts={"pieces": 4})
    world.start(job_id)
    world.ended(job_id, "done", artifacts={"frame": "f"})
    world.definition = varied(outside(world.definition))
    job = world.jobs[job_id]
    if job.status != "painting":
        world.move(job_id, "painting", ADMIN)
    before = world.jobs[job_id]
    said = world.move(job_id, "painting", ADMIN, artifacts={"coat": 3}, progress=40)
    assert code(said) == "VALIDATION_ERROR"
    assert world.jobs[job_id] is before


@pytest.mark.parametrize("value", [None, "", 3])
def test_edit_of_the_wrong_form(value: Any) -> None:
    world = shop(Listed("wish", (TEXT,)))
    job = world.jobs[world.born()]
    said = world.tell(job.id, Edit(ADA, "wish", value))
    assert isinstance(said, Refused)
    assert (said.code, said.extra["errors"][0]["path"]) == ("VALIDATION_ERROR", "$.value")
    assert world.jobs[job.id] is job
    assert code(world.tell(job.id, Edit(ADA, "wish", "red"))) == "moved"


def test_checkpoint_of_the_wrong_form_ends_its_attempt() -> None:
    world = shop(Listed("half", (TEXT,)))
    job_id = cutting(world)
    job = world.jobs[job_id]
    said = world.tell(job_id, Checkpoint(job.serial, Report(artifacts={"half": 7, "more": 1})))
    assert isinstance(said, Decision)
    assert StopStage(job.serial) in said.effects
    tried = world.tried(job_id)[-1]
    assert tried.failure is not None
    assert (tried.outcome, tried.failure.code) == ("failed", "STAGE_CRASHED")
    assert "half: 7 is not a string" in tried.failure.message
    assert world.jobs[job_id].value("half") is None


@pytest.mark.parametrize("brought", [{"pieces": "four"}, {"pieces": 4, "mark": "mine"}])
def test_outcome_of_the_wrong_form_failed(brought: dict[str, Any]) -> None:
    """Of a form that is not known, or what is not a stage's to write."""
    world = shop(Listed("pieces", (Shape("integer"),)), Listed("mark", writers=("admin",)))
    job_id = cutting(world)
    world.ended(job_id, "done", artifacts=brought)
    job = world.jobs[job_id]
    assert (job.status, job.failure_code) == ("failed", "STAGE_CRASHED")
    assert {"mark", "pieces"} - job.artifacts.keys()


def test_result_of_the_wrong_form() -> None:
    world = shop(results={"kit": (Shape("object", at_least=1),)})
    job_id = cutting(world, "kit")
    said = world.callback(job_id, "e1", "refused", result={})
    assert isinstance(said, Refused)
    assert said.extra["errors"][0]["path"] == "$.result"
    assert code(world.callback(job_id, "e1", "refused", result={"why": "wood"})) == "moved"
    other = cutting(world)
    world.ended(other, "done", artifacts={"pieces": 4}, result={})
    assert world.jobs[other].status != "failed"
