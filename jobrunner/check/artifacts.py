"""Checks that a listed artifact or a declared result can be meant: forms that some value can have,
and writers and places that exist."""

from collections.abc import Iterator

from jobrunner.check.faults import Fault
from jobrunner.check.ways import Chart
from jobrunner.core.declaration.artifacts import Listed, Shape, told, unlike
from jobrunner.core.declaration.spelling import ARTIFACT

COUNTED = ("string", "object", "array")
AN_ADDRESS = "/assets/1/content"


def unlistable(chart: Chart) -> Iterator[Fault]:
    """List everything that is wrong with what the workflow says of its artifacts and results."""
    for listed in chart.workflow.artifacts:
        for problem in (*_problems(chart, listed), *_shapes(listed.shapes)):
            yield _fault(f"artifact {listed.name}", problem)
    for job_type, shapes in chart.workflow.results.items():
        for problem in _shapes(shapes):
            yield _fault(f"result of {job_type}", problem)
    yield from _files(chart)


def _fault(place: str, problem: str) -> Fault:
    return Fault(
        "artifact", f"{place} {problem}", (place, f"here: it {problem.split(';', maxsplit=1)[0]}")
    )


def _problems(chart: Chart, listed: Listed) -> Iterator[str]:
    if not ARTIFACT.fullmatch(listed.name):
        yield "has a name that no report can say; use lower case letters, digits, '_'"
    for status in listed.states:
        if chart.states[status].kind == "final":
            yield f"is written from {status}, which is final; no report comes from there"


def _shapes(shapes: tuple[Shape, ...]) -> Iterator[str]:
    for shape in shapes:
        if shape.at_least < 0 or (shape.at_least and shape.type not in COUNTED):
            yield f"has a form of {told(shape)}; at_least is a size, of strings, objects and arrays"
        if shape.fields and shape.type != "object":
            yield f"has a {shape.type} with fields; only an object has some"
        if shape.items and shape.type != "array":
            yield f"has a {shape.type} with items; only an array has some"
        for inner in (*shape.fields.values(), shape.items):
            yield from _shapes(inner)


def _files(chart: Chart) -> Iterator[Fault]:
    """Find values that become the address of a file and cannot be one."""
    for state in chart.workflow.states:
        listed = chart.definition.listed.get(state.produces)
        if listed is not None and "stage" not in listed.writers:
            place = f"artifact {listed.name}"
            yield _fault(place, f"is not the stage's to write; {state.name} produces it")
        yield from _addressed(chart, f"state {state.name}", state.produces)
    for upload in chart.workflow.uploads:
        for name in (upload.artifact, upload.fingerprint):
            yield from _addressed(chart, f"upload {upload.name}", name)


def _addressed(chart: Chart, place: str, name: str) -> Iterator[Fault]:
    listed = chart.definition.listed.get(name)
    if listed is not None and unlike(AN_ADDRESS, listed.shapes):
        yield _fault(place, f"stores text in {name}, which is listed in other forms; list a string")
