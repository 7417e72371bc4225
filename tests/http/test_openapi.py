"""The document: it is valid, and it has every route, status and code. That every answer of all
these tests is documented is judged in ``serving``."""

import gc
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, ClassVar

import jsonschema_rs
import msgspec
import pytest
from msgspec import inspect

from jobrunner.check.structs import mixes, perilous_fields
from jobrunner.core.declaration.workflow import Definition
from jobrunner.errors import STATUS_OF_CODE
from jobrunner.http.frame import openapi
from jobrunner.http.frame.endpoint import status_of
from jobrunner.http.routes.table import CORE
from tests.http.serving import PLUGINS, House, definitions

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def document(house: House) -> dict[str, Any]:
    return dict(house.contract.document)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


async def test_every_route_is_in_it_and_nothing_else(document: dict[str, Any]) -> None:
    registry = definitions()
    declared = [registry.current(name) for name in registry.names()]
    found = {(method, path) for method, path, _ in operations(document)}
    core = {endpoint.door for endpoint in CORE if endpoint.listed}
    added = {
        (route.method, route.path)
        for definition in declared
        if definition
        for route in definition.workflow.routes
    }
    commands = {
        ("POST", path)
        for definition in declared
        if definition
        for command in definition.workflow.commands
        for path in (*command.aliases, f"/jobs/{{id}}/{command.name}")
    }
    assert found == core | added | commands


async def test_names_of_operations_are_one_each(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names))
    assert "createJob" in names


async def test_references_lead_somewhere(document: dict[str, Any]) -> None:
    _lead_somewhere(document)


def _lead_somewhere(document: dict[str, Any]) -> None:
    for reference in _references(document):
        _, _, of, name = reference.split("/")
        assert name in document["components"][of], reference


async def test_every_schema_is_one(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        whole = {**schema, "components": document["components"]}
        jsonschema_rs.Draft202012Validator(whole)
        assert name.replace("_", "").replace(".", "").isalnum()


async def test_every_schema_is_one_that_generators_read(document: dict[str, Any]) -> None:
    """Those that stand under ``make generators``, which is not run each time."""
    for schema in _schemas(document["components"]["schemas"]):
        assert schema.get("items") is not False, schema
        assert str(schema.get("pattern", "")).isprintable(), schema
        said = schema.get("if", {}).get("required", [])
        assert set(said) <= schema.get("if", {}).get("properties", {}).keys(), schema


def _schemas(value: Any) -> Iterator[dict[str, Any]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
    for one in inner:
        yield from _schemas(one)


OPEN = {
    ("GET", "/"),
    ("GET", "/page/{build}/{part}"),
    ("GET", "/panels/{name}/{build}/{part}"),
    ("GET", "/session"),
    ("POST", "/session"),
    ("DELETE", "/session"),
    ("GET", "/docs"),
    ("GET", "/docs/{part}"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/openapi.json"),
    ("POST", "/webhooks/{source}"),
    ("GET", "/callbacks/{token}"),
    ("POST", "/callbacks/{token}"),
    ("OPTIONS", "/uploads"),
}


async def test_what_a_token_is_needed_for_says_so(document: dict[str, Any]) -> None:
    for verb, path, operation in operations(document):
        without = operation.get("security") == []
        assert without == ((verb, path) in OPEN), path
        assert without or "401" in operation["responses"]


def test_every_code_has_a_status_of_its_kind() -> None:
    for code, status in STATUS_OF_CODE.items():
        assert 400 <= status < 600, code
    assert status_of("JOB_LOCKED", []) == 409
    for endpoint in CORE:
        for code in endpoint.all_codes():
            assert status_of(code, []), code


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from _references(inner)
    if isinstance(value, list):
        for inner in value:
            yield from _references(inner)


class BulkOrder(msgspec.Struct):
    """As a plugin may call its own; so may it a field of it."""

    rules: list[int]


class Which(msgspec.Struct):
    rules: ClassVar[str] = "of somebody else's"
    type: int = 0


def test_what_plugins_call_their_structs_breaks_no_document() -> None:
    """Neither the names of ours, nor a field or a word called as our rules are."""
    declared = definitions(names=("hello",)).current("hello")
    assert declared is not None
    job_type, *_ = declared.workflow.job_types
    for kind, published in ((BulkOrder, "BulkOrder"), (Which, "JobFilter")):
        structs = {**declared.structs, job_type.params: kind}
        changed = Definition(declared.workflow, declared.functions, structs)
        made = openapi.document(CORE, [changed], "1")
        schemas = made["components"]["schemas"]
        _lead_somewhere(made)
        assert {"command", "workflow"} & set(schemas[published]["properties"])
        assert schemas[published]["then"], "its rules stand beside its fields"
        theirs = schemas["HelloGreetingParams"]
        assert set(theirs["properties"]) == set(kind.__struct_fields__)
        assert "then" not in theirs


# ---------------------------------------------------------------- structs that msgspec survives


def _structs() -> list[type[msgspec.Struct]]:
    for name in PLUGINS:
        import_module(f"jobrunner_{name}")

    def below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
        for one in kind.__subclasses__():
            yield one
            yield from below(one)

    ours = {one for one in below(msgspec.Struct) if one.__module__.startswith("jobrunner")}
    return sorted(ours, key=lambda one: (one.__module__, one.__qualname__))


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="about its collector")
def test_no_field_mixes_patterned_text_with_arrays_or_objects() -> None:
    """msgspec 0.22 misreads its own memory when the collector looks at such a field: the process
    would die, now or later."""
    found = []
    for kind in _structs():
        if kind.__module__ in ("jobrunner.http.frame.endpoint", "jobrunner.app"):
            continue
        try:
            fields = perilous_fields(kind)
        except (TypeError, NameError):
            continue
        found += [f"{kind.__qualname__}.{field}" for field in fields]
    gc.collect()
    assert not found


def test_the_check_above_can_fail() -> None:
    text = inspect.StrType(pattern="x")
    assert mixes(inspect.UnionType((text, inspect.ListType(text))))
    assert not mixes(inspect.UnionType((text, inspect.NoneType())))


def test_definitions_load() -> None:
    registry = definitions()
    assert all(isinstance(registry.current(name), Definition) for name in registry.names())
