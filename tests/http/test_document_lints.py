"""The document as generators of clients want it: what each of these holds, one of them has stumbled
over. ``make generators`` lets them all loose on it."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from jobrunner.core.declaration.states import Kind
from jobrunner.errors import STATUS_OF_CODE
from jobrunner.http.frame import openapi
from jobrunner.http.routes.plugins import endpoints_of
from jobrunner.http.routes.table import CORE
from tests.golden.outsides import definitions
from tests.http.serving import House

pytestmark = pytest.mark.anyio

OPERATIONS = ("delete", "get", "options", "patch", "post", "put")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return made("hello", "cutx", "howera", "ss", "image-generation", "asset-pattern")


def made(*names: str) -> dict[str, Any]:
    loaded = [one for one in definitions() if one.workflow.name in names]
    return openapi.document((*CORE, *endpoints_of(loaded)), loaded, "1")


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        yield from ((path, item[verb]) for verb in OPERATIONS if verb in item)


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in it."""
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from parts(one)


def kinds(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in this one; a member may be called like a keyword."""
    yield from (
        one
        for one in parts(schema)
        if not any(one is above.get("properties") for above in parts(schema))
    )


def test_it_is_valid_by_the_specification(document: dict[str, Any]) -> None:
    faults = [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()]
    assert faults == []


def test_names_of_operations_become_names_of_functions(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", name) for name in names), names
    assert [name for name, times in Counter(map(str.lower, names)).items() if times > 1] == []
    assert {"createJob", "getJob", "cancelJob", "retryJob", "followJob"} <= set(names)


def test_a_command_called_as_what_every_job_has_keeps_another_name() -> None:
    command = openapi._operation_of("pause", {"pauseJob"})
    assert command == "pauseJobCommand"


def test_every_schema_has_a_title_of_its_own(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert all(re.fullmatch(r"[A-Z][A-Za-z0-9]*", name) for name in schemas), list(schemas)
    assert {one["title"] for one in schemas.values() if "title" in one} <= set(schemas)
    assert [name for name, one in schemas.items() if one.get("title", name) != name] == []


def test_no_name_depends_on_what_else_is_loaded(document: dict[str, Any]) -> None:
    for name in ("cutx", "howera", "ss"):
        alone = made(name)
        assert set(alone["components"]["schemas"]) <= set(document["components"]["schemas"])
        assert set(alone["paths"]) <= set(document["paths"])


def test_no_member_has_a_default_that_readers_take_for_its_presence(
    document: dict[str, Any],
) -> None:
    for schema in document["components"]["schemas"].values():
        assert [one for one in kinds(schema) if "default" in one] == []
    priority = document["components"]["schemas"]["Submission"]["properties"]["priority"]
    assert priority["description"].endswith("Default: 0")
    limit = document["paths"]["/jobs"]["get"]["parameters"][0]
    assert (limit["name"], limit["schema"]["default"]) == ("limit", 20)


def test_no_default_of_a_parameter_is_null(document: dict[str, Any]) -> None:
    assert [one for one in parts(document["paths"]) if one.get("default", ...) is None] == []


def test_no_schema_is_called_like_a_member_of_its_own(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        members = [one.replace("_", "") for one in schema.get("properties", ())]
        assert name.lower() not in members


def test_params_are_any_object_to_readers_and_those_of_a_job_type_to_judges(
    document: dict[str, Any],
) -> None:
    params = document["components"]["schemas"]["JobParams"]
    assert (params["type"], params["additionalProperties"]) == ("object", True)
    assert {"$ref": "#/components/schemas/HelloGreetingParams"} in params["then"]["anyOf"]


def test_no_choice_is_one_of_one(document: dict[str, Any]) -> None:
    for one in parts(document):
        for key in ("allOf", "anyOf", "oneOf"):
            assert len(one.get(key, (1, 2))) > 1, one


def test_no_two_properties_are_the_same_in_camels(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        plain = [one.replace("_", "").lower() for one in schema.get("properties", ())]
        assert len(plain) == len(set(plain)), name


def test_words_that_are_few_are_listed(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert set(STATUS_OF_CODE) <= set(schemas["ErrorCode"]["enum"])
    assert schemas["Problem"]["properties"]["error_code"]["$ref"].endswith("/ErrorCode")
    assert set(schemas["JobKind"]["enum"]) == set(get_args(Kind))
    assert schemas["Job"]["properties"]["kind"]["$ref"].endswith("/JobKind")
    for one in parts(document):
        if "enum" in one and "type" not in one.get("properties", ()):
            assert "type" in one, one


def test_instants_are_instants(document: dict[str, Any]) -> None:
    for schema in document["components"]["schemas"].values():
        for name, one in schema.get("properties", {}).items():
            if name == "at" or name.endswith("_at"):
                assert one["format"] == "date-time", (schema["title"], name)


def test_a_path_is_listed_once(document: dict[str, Any]) -> None:
    assert [path for path in document["paths"] if path.endswith("/") and path != "/"] == []


async def test_and_served_twice(house: House) -> None:
    made = await house.ada.post("/jobs/", {"workflow": "howera"})
    assert made.status == 201
    assert (await house.ada.get("/jobs/")).json["jobs"][0]["id"] == made.json["id"]


def test_refusals_are_shared(document: dict[str, Any]) -> None:
    """A refusal of a status reads the same everywhere; its codes stand beside the operation."""
    shared = document["components"]["responses"]
    for path, operation in operations(document):
        for status, codes in operation["x-error-codes"].items():
            assert codes
            answer = operation["responses"][status]
            assert "content" in answer or answer["$ref"].rpartition("/")[2] in shared, path


def test_streams_are_text_and_files_are_bytes(document: dict[str, Any]) -> None:
    paths = document["paths"]
    stream = paths["/jobs/{id}/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    assert stream["schema"]["type"] == "string"
    assert {"$ref": "#/components/schemas/TransitionEvent"} in list(parts(stream))
    file = {"schema": {"type": "string", "format": "binary"}}
    content = paths["/assets/{id}/content"]["get"]["responses"]["200"]["content"]
    assert content["application/octet-stream"] == file
    body = paths["/assets"]["post"]["requestBody"]["content"]
    assert body == {"application/octet-stream": file}


def test_there_is_a_submission_to_begin_with() -> None:
    document = made("hello")
    (example,) = document["components"]["schemas"]["Submission"]["examples"]
    assert example == {"workflow": "hello", "params": {}}
