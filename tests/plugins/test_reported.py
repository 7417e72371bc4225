"""What the report of a worker may bring, workflow by workflow: a value where a decision belongs is
none, and no report writes what a command is there for."""

from collections.abc import Callable
from typing import Any

import pytest
from jobrunner_cutx import definition as cutx

from jobrunner.core.declaration.workflow import Definition
from jobrunner.errors import Refused
from tests.driving import WORKER, World, code, outside
from tests.plugins import image_generation_arranged as images
from tests.plugins import ss_arranged as ss

NO_TEXT: tuple[Any, ...] = ("", "  ", 0, False, [], {}, ["x"])
NO_OBJECT: tuple[Any, ...] = ("", "x", 0, False, [], {}, [{"a": 1}])
PLAN = {
    "plan_id": "forged",
    "fingerprint": "f1",
    "requirement": "Sum",
    "answers": {},
    "draft_version": 1,
}


def ordered(world: World) -> str:
    job_id = world.born("static_ad", {"product_id": "lamp-7"})
    assert code(world.move(job_id, "processing", WORKER)) == "moved"
    return job_id


def refusal(
    definition: Definition, arrange: Callable[[World], str], to: str, **report: Any
) -> Refused:
    """Of a worker's transition, and of the same by callback; neither changes anything."""
    world = World(definition)
    job_id = arrange(world)
    before = world.jobs[job_id]
    said = world.move(job_id, to, WORKER, **report)
    heard = world.callback(job_id, "e9", to, **report)
    assert isinstance(said, Refused), said
    assert isinstance(heard, Refused), heard
    assert (heard.code, heard.status) == (said.code, said.status)
    assert world.jobs[job_id] is before
    return said


@pytest.mark.parametrize("result", NO_OBJECT)
def test_an_advertisement_is_not_completed_by_nothing(result: Any) -> None:
    missing = refusal(outside(cutx), ordered, "completed", result=result)
    assert (missing.code, missing.status) == ("RESULT_MISSING", 409)
    told = refusal(outside(cutx), ordered, "failed", failure_message="no", result=result)
    assert (told.code, told.status) == ("VALIDATION_ERROR", 400)


@pytest.mark.parametrize("value", ["", "  ", 0, False, [], ["x"]])
def test_a_draft_is_a_text_or_an_object(value: Any) -> None:
    said = refusal(ss.definition, ss.created, "draft_ready", artifacts={"draft": value})
    assert (said.code, said.status) == ("DRAFT_MISSING", 409)


@pytest.mark.parametrize("plan", ["x", {}, PLAN])
@pytest.mark.parametrize(
    ("arrange", "to"), [(ss.created, "draft_ready"), (ss.running, "succeeded")]
)
def test_no_report_brings_a_plan(arrange: Callable[[World], str], to: str, plan: Any) -> None:
    """Freezing makes it."""
    artifacts = {"plan": plan, **ss.REPORTS.get(to, {}).get("artifacts", {})}
    said = refusal(ss.definition, arrange, to, artifacts=artifacts)
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)
    assert said.extra["errors"][0]["path"] == "$.artifact_updates.plan"


@pytest.mark.parametrize("name", ["draft", "answers", "input", "fingerprint"])
def test_what_a_plan_covers_is_not_written_any_more(name: str) -> None:
    value: Any = {"forged": True} if name in ("draft", "answers") else "forged"
    said = refusal(ss.definition, ss.running, "succeeded", artifacts={name: value})
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)
    assert said.extra["errors"][0]["path"] == f"$.artifact_updates.{name}"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("results", value) for value in ("", "x", 0, False)),
        *((name, value) for name in ("figure", "report") for value in NO_TEXT),
    ],
)
def test_what_was_computed_has_its_form(name: str, wrong: Any) -> None:
    said = refusal(ss.definition, ss.running, "succeeded", artifacts={name: wrong})
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("original", value) for value in NO_TEXT),
        *(("provider_result", value) for value in NO_OBJECT),
    ],
)
def test_what_a_picture_came_from_has_its_form(name: str, wrong: Any) -> None:
    """The neighbour: pictures are delivered, and what is said beside them is looked at too."""
    report = {**images.REPORTS["completed"], "artifacts": {name: wrong}}
    said = refusal(images.definition, images.running, "completed", **report)
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)
