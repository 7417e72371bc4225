"""The OpenAPI 3.1 document, from the table, the structs, and the loaded declarations.

It is written for generators of clients, so what can be said in two ways is said in the plain one: a
refusal is the answer of its status, the same everywhere, and which codes an operation has stands
beside it (``x-error-codes``); a path is listed once, also where it is served twice.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from jobrunner.core.declaration.workflow import Definition
from jobrunner.http.frame.endpoint import DECLARED, JSON, PROBLEM, Endpoint, View, status_of
from jobrunner.http.frame.headers import answered_by, asked_of, told_with
from jobrunner.http.frame.problems import Problem, phrase_of
from jobrunner.http.frame.schemas import ANYTHING, Schema, Schemas, camel, tidied
from jobrunner.http.frame.streaming import ANY_TYPE, EVENT_STREAM

LICENSE = {"name": "MIT", "identifier": "MIT"}
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of this service, or of the identity provider that it trusts.",
}
AN_ID = "01900000-0000-7000-8000-000000000000"
FILE: Schema = {"type": "string", "format": "binary"}
TEXT: Schema = {"type": "string"}
# The answer to whatever is refused with this status, by a name that no version of HTTP changes.
REFUSALS = {
    400: "BadRequest",
    401: "Unauthorized",
    402: "PaymentRequired",
    403: "Forbidden",
    404: "NotFound",
    406: "NotAcceptable",
    408: "RequestTimeout",
    409: "Conflict",
    410: "Gone",
    412: "PreconditionFailed",
    413: "ContentTooLarge",
    415: "UnsupportedMediaType",
    416: "RangeNotSatisfiable",
    422: "UnprocessableContent",
    429: "TooManyRequests",
    460: "ChecksumMismatch",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}


def document(
    table: Sequence[Endpoint], definitions: list[Definition], version: str, public_url: str = ""
) -> dict[str, Any]:
    """Make the document of every route, every status, every code."""
    schemas = Schemas(table, definitions)
    _give_example(schemas)
    paths: dict[str, Any] = {}
    for endpoint in table:
        if endpoint.listed:
            operations = paths.setdefault(endpoint.path, {})
            operations[endpoint.method.lower()] = _operation(endpoint, schemas)
    for path, operation in _command_paths(schemas, table):
        paths.setdefault(path, {}).setdefault("post", operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "jobrunner", "version": version, "license": LICENSE},
        "servers": _servers(public_url),
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": _refusals(paths, schemas),
            "securitySchemes": {"bearer": BEARER},
        },
    }


def _servers(public_url: str) -> list[dict[str, Any]]:
    """First as seen from where this document was had, by whatever name; then in full."""
    whole = public_url.rstrip("/")
    return [{"url": urlsplit(whole).path or "/"}] + ([{"url": whole}] if whole else [])


def _give_example(schemas: Schemas) -> None:
    """A submission that is taken as it stands: of the first workflow that asks for nothing."""
    for definition in schemas.definitions:
        job_type, *_ = definition.workflow.job_types
        try:
            msgspec.convert({}, definition.structs[job_type.params])
        except msgspec.ValidationError:
            continue
        example = {"workflow": definition.workflow.name, "params": {}}
        schemas.components["Submission"]["examples"] = [example]
        return


def _operation(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [_tag(endpoint.path)],
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint, schemas),
        "x-error-codes": _by_status(endpoint, schemas),
    }
    if endpoint.callers is None:
        operation["security"] = []
    else:
        operation |= {"security": [{}, {"bearer": []}]} if endpoint.local else {}
        operation["x-roles"] = sorted(endpoint.callers or ())
    if endpoint.body is not None:
        operation["requestBody"] = _body(endpoint, schemas)
    if endpoint.streams:
        content = {endpoint.streams: {"schema": dict(FILE)}}
        operation["requestBody"] = {"required": False, "content": content}
    return operation


def _tag(path: str) -> str:
    """Name the heading under which the page shows a route, by the beginning of its path."""
    return path.split("/")[1].partition(".")[0] or "service"


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    segments = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    found = [
        {"name": name, "in": "path", "required": True, "schema": dict(TEXT)} for name in segments
    ]
    if endpoint.query is not None:
        found += _queried(endpoint)
    return found + asked_of(endpoint)


def _queried(endpoint: Endpoint) -> list[dict[str, Any]]:
    """A query has no null: what may be null may be left out."""
    (_,), found = msgspec.json.schema_components([endpoint.query])
    schema = found[endpoint.query.__name__] if endpoint.query else {}
    return [
        {"name": name, "in": "query", "required": False, "schema": _not_null(tidied(value))}
        for name, value in schema["properties"].items()
    ]


def _not_null(schema: Schema) -> Schema:
    schema = {key: value for key, value in schema.items() if (key, value) != ("default", None)}
    if isinstance(schema.get("type"), list):
        (kind,) = [one for one in schema["type"] if one != "null"]
        words = [one for one in schema.get("enum", ()) if one is not None]
        return schema | {"type": kind} | ({"enum": words} if words else {})
    return schema


def _body(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    kind = endpoint.shown_body or (None if endpoint.takes_any_body else endpoint.body)
    schema = schemas.ref(kind) if kind is not None else dict(ANYTHING)
    if endpoint.command:
        schema = _one_of(schemas.fields_of(endpoint.command)) or schema
    return {"required": not endpoint.empty, "content": {JSON: {"schema": schema}}}


def _one_of(found: list[Schema]) -> Schema:
    return {"anyOf": found} if len(found) > 1 else dict(found[0]) if found else {}


def _responses(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for meant, kind in endpoint.answers.items():
        answer = _answer(meant, kind, endpoint, schemas)
        responses[str(meant)] = answer | {"headers": answered_by(endpoint, meant)}
    for status, codes in _by_status(endpoint, schemas).items():
        if status in responses:
            responses[status].setdefault("content", {})[PROBLEM] = _problem(int(status), schemas)
        else:
            place = f"#/components/responses/{_refusal(int(status))}"
            responses[status] = {"$ref": place, "description": ", ".join(codes)}
    return responses


def _answer(status: int, kind: Any, endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": phrase_of(status)}
    if kind is None:
        return answer
    if kind == EVENT_STREAM:
        answer["content"] = {EVENT_STREAM: _stream(endpoint, schemas)}
    elif isinstance(kind, str):
        form = FILE if kind == ANY_TYPE else TEXT
        answer["content"] = {one: {"schema": dict(form)} for one in (kind, *endpoint.media)}
    else:
        shape = isinstance(kind, type) and issubclass(kind, View)
        schema = schemas.ref(kind) if shape and isinstance(kind, type) else dict(ANYTHING)
        answer["content"] = {JSON: {"schema": schema}}
        answer["content"] |= {one: {"schema": dict(TEXT)} for one in endpoint.media}
    return answer


def _stream(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    """Text to this version of OpenAPI; what the data of its events is stands beside it."""
    names = ", ".join(endpoint.events)
    text = f"Server-sent events ({names}), each with one line of JSON as its data."
    kinds = [schemas.ref(kind) for kind in dict.fromkeys(endpoint.events.values())]
    told = {"contentMediaType": EVENT_STREAM, "contentSchema": {"anyOf": kinds}}
    return {"schema": {"type": "string", "description": text, **told}}


def _by_status(endpoint: Endpoint, schemas: Schemas) -> dict[str, list[str]]:
    codes = set(endpoint.all_codes())
    if DECLARED in endpoint.codes:
        codes |= {code for one in schemas.definitions for code in one.workflow.codes}
    by_status: dict[str, list[str]] = {}
    for code in sorted(codes):
        by_status.setdefault(str(status_of(code, schemas.definitions)), []).append(code)
    return by_status


def _refusal(status: int) -> str:
    """Name the answer of a status; a workflow may have a code of one that nobody else uses."""
    return REFUSALS.get(status, f"Status{status}")


def _refusals(paths: dict[str, Any], schemas: Schemas) -> dict[str, Any]:
    """The answers that operations refer to."""
    used = {
        status
        for operations in paths.values()
        for operation in operations.values()
        for status in operation["x-error-codes"]
    }
    return {
        _refusal(status): {
            "description": phrase_of(status),
            "headers": told_with(status),
            "content": {PROBLEM: _problem(status, schemas)},
        }
        for status in sorted(map(int, used))
    }


def _problem(status: int, schemas: Schemas) -> dict[str, Any]:
    code = next(one for one in schemas.codes if status_of(one, schemas.definitions) == status)
    example = {
        "type": f"urn:jobrunner:problem:{code.lower()}",
        "title": phrase_of(status),
        "status": status,
        "detail": "a sentence for people",
        "error_code": code,
        "correlation_id": AN_ID,
    }
    return {"schema": schemas.ref(Problem), "example": example}


def _command_paths(
    schemas: Schemas, table: Sequence[Endpoint]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """List each declared command under its own name, with the fields it has in each workflow."""
    generic = next(one for one in table if one.name == "commandJob")
    taken = {one.name for one in table}
    having: dict[str, list[Definition]] = {}
    for definition in schemas.definitions:
        for command in definition.workflow.commands:
            having.setdefault(command.name, []).append(definition)
    for name, definitions in sorted(having.items()):
        operation = _operation(generic, schemas)
        workflows = ", ".join(definition.workflow.name for definition in definitions)
        operation["operationId"] = _operation_of(name, taken)
        operation["summary"] = f"The command {name!r} of {workflows}"
        operation["x-command"] = name
        parameters = operation["parameters"]
        operation["parameters"] = [one for one in parameters if one["name"] != "command"]
        own = schemas.fields_of(name)
        plain = [] if len(own) == len(definitions) else [_body_of(operation)["schema"]]
        _body_of(operation)["schema"] = _one_of(own + plain)
        yield f"/jobs/{{id}}/{name}", operation


def _body_of(operation: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = operation["requestBody"]["content"][JSON]
    return found


def _operation_of(command: str, taken: set[str]) -> str:
    """``cancel`` is cancelJob; never the name of what is there for every job."""
    words = camel(command)
    name = f"{words[0].lower()}{words[1:]}Job"
    return f"{name}Command" if name in taken else name
