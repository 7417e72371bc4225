"""The OpenAPI 3.1 document, from the table, the structs, and the loaded declarations."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.bulk import BUILT_IN
from jobrunner.http.frame.bodies import INTEGER_MAX
from jobrunner.http.frame.endpoint import DECLARED, JSON, PROBLEM, Body, Endpoint, View, status_of
from jobrunner.http.frame.headers import answered_by, asked_of
from jobrunner.http.frame.inputs import command_body
from jobrunner.http.frame.problems import Problem, phrase_of
from jobrunner.http.frame.streaming import EVENT_STREAM
from jobrunner.http.frame.views import Job

REF = "#/components/schemas/{name}"
# What is published under another name than its class has: outside, these names are contract.
PUBLISHED = {
    "AttemptList": "Attempts",
    "AuditLog": "Audit",
    "ClaimList": "Claims",
    "CreditsView": "Purse",
    "DeliveryList": "Deliveries",
    "LedgerLine": "LedgerEntry",
    "PauseList": "Pauses",
    "PauseOrder": "Held",
    "TransitionOrder": "Transition",
}
# Who reads a stream as text finds it so, and who takes it apart finds what each event is.
EVENTS = {
    "type": ["string", "object"],
    "properties": {
        "event": {"enum": ["transition", "progress", "settled"]},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": JSON},
    },
}


def document(
    table: Sequence[Endpoint], definitions: list[Definition], version: str, public_url: str = ""
) -> dict[str, Any]:
    """Every route, every status, every code."""
    names = _Names(table, definitions)
    paths: dict[str, Any] = {}
    for endpoint in table:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, names)
    for path, operation in _command_paths(names, table).items():
        paths.setdefault(path, {}).setdefault("post", operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "jobrunner", "version": version},
        "servers": _servers(public_url),
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": names.schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _servers(public_url: str) -> list[dict[str, Any]]:
    """First as seen from where this document was had, by whatever name; then in full."""
    whole = public_url.rstrip("/")
    return [{"url": urlsplit(whole).path or "/"}] + ([{"url": whole}] if whole else [])


class _Names:
    """The schemas of all structs, and where each is referred to."""

    def __init__(self, table: Sequence[Endpoint], definitions: list[Definition]) -> None:
        self.definitions = definitions
        self.commands = {
            (definition.workflow.name, command.name): command_body(definition, command)
            for definition in definitions
            for command in definition.workflow.commands
        }
        self.params = {
            (definition.workflow.name, job_type.name): definition.structs[job_type.params]
            for definition in definitions
            for job_type in definition.workflow.job_types
        }
        declared = (*self.commands.values(), *self.params.values())
        kinds = list(dict.fromkeys(_with_inner([*_structs(table), *declared])))
        refs, self.schemas = msgspec.json.schema_components(kinds, ref_template=REF)
        names = {one: other for one, other in PUBLISHED.items() if other not in self.schemas}
        refs, found = _renamed(refs, names), _renamed(self.schemas, names)
        self.schemas = {names.get(name, name): schema for name, schema in found.items()}
        self._refs = dict(zip(kinds, refs, strict=True))
        for kind in kinds:
            if issubclass(kind, Body):
                self._say_what_is_loaded(kind)
        _bounded(self.schemas)
        for kind in kinds:
            rules = getattr(kind, "rules", ())
            if rules and isinstance(rules, tuple):  # a field may be called so as well
                self._schema(kind)["allOf"] = list(rules)

    def _schema(self, kind: type[Any]) -> dict[str, Any]:
        """By whatever name: two structs called the same have longer ones."""
        found: dict[str, Any] = self.schemas[self._refs[kind]["$ref"].removeprefix(REF[:-6])]
        return found

    def ref(self, kind: type[Any]) -> dict[str, Any]:
        return dict(self._refs[kind])

    def fields_of(self, command: str) -> dict[str, dict[str, Any]]:
        """The fields of a command, by workflow."""
        found = {one: kind for (one, name), kind in self.commands.items() if name == command}
        return {workflow: self.ref(kind) for workflow, kind in found.items()}

    def _say_what_is_loaded(self, kind: type[Any]) -> None:
        """Fill in the fields that loaded workflows have the say of."""
        choices = [self.ref(one) for one in dict.fromkeys(self.params.values())]
        commands = {command for _, command in self.commands} | set(BUILT_IN)
        said: dict[str, dict[str, Any]] = {
            "workflows": {"examples": [one.workflow.name for one in self.definitions]},
            "params": {"anyOf": choices} if choices else {"type": "object"},
            "commands": {"enum": sorted(commands)},
        }
        for name, what in kind.from_workflows.items():
            self._schema(kind)["properties"][name] |= said[what]


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    """Replace these names of structs in titles and references."""
    if isinstance(schema, (list, tuple)):
        return [_renamed(inner, names) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _named(key, inner, names) for key, inner in schema.items()}


def _named(key: str, value: Any, names: dict[str, str]) -> Any:
    if key not in ("$ref", "title") or not isinstance(value, str):
        return _renamed(value, names)
    above, slash, name = value.rpartition("/")
    return above + slash + names.get(name, name)


def _bounded(schema: Any) -> None:
    """Whole numbers as far as everybody's JSON can tell them apart: ``bodies`` takes no others."""
    if isinstance(schema, dict):
        if schema.get("type") == "integer":
            schema.setdefault("minimum", -INTEGER_MAX)
            schema.setdefault("maximum", INTEGER_MAX)
        schema = list(schema.values())
    for inner in schema if isinstance(schema, list) else ():
        _bounded(inner)


def _structs(table: Iterable[Endpoint]) -> Iterable[type[Struct]]:
    yield from (Problem, Job)
    for endpoint in table:
        for kind in (endpoint.body, endpoint.shown_body, *endpoint.answers.values()):
            if isinstance(kind, type) and issubclass(kind, Struct):
                yield kind


def _with_inner(kinds: Iterable[type[Struct]]) -> Iterator[type[Struct]]:
    """Each struct, and those that its fields are made of."""
    for kind in kinds:
        yield kind
        yield from _with_inner(_structs_in(field.type for field in fields(kind)))


def _structs_in(hints: Iterable[Any]) -> Iterator[type[Struct]]:
    for hint in hints:
        if isinstance(hint, type) and issubclass(hint, Struct):
            yield hint
        yield from _structs_in(get_args(hint))


def _operation(endpoint: Endpoint, names: _Names) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [_tag(endpoint.path)],
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint, names),
    }
    if endpoint.callers is None:
        operation["security"] = []
    else:
        operation |= {"security": [{}, {"bearer": []}]} if endpoint.local else {}
        operation["x-roles"] = sorted(endpoint.callers or ())
    if endpoint.body is not None:
        operation["requestBody"] = _body(endpoint, names)
    if endpoint.streams:
        file = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"] = {"required": False, "content": {endpoint.streams: file}}
    return operation


def _tag(path: str) -> str:
    """Under which heading the page shows it: what the path begins with."""
    return path.split("/")[1] or "service"


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    segments = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    found = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in segments
    ]
    if endpoint.query is not None:
        found += _queried(endpoint)
    return found + asked_of(endpoint)


def _queried(endpoint: Endpoint) -> list[dict[str, Any]]:
    """A query has no null: what may be null may be left out."""
    (_,), schemas = msgspec.json.schema_components([endpoint.query])
    schema = schemas[endpoint.query.__name__] if endpoint.query else {}
    return [
        {"name": name, "in": "query", "required": False, "schema": _not_null(value)}
        for name, value in schema["properties"].items()
    ]


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    kept = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return kept[0] if len(kept) == 1 else schema


def _body(endpoint: Endpoint, names: _Names) -> dict[str, Any]:
    kind = endpoint.shown_body or (None if endpoint.takes_any_body else endpoint.body)
    schema = names.ref(kind) if kind is not None else {"type": "object"}
    if endpoint.command:
        schema = {"anyOf": list(names.fields_of(endpoint.command).values())}
    return {"required": not endpoint.empty, "content": {JSON: {"schema": schema}}}


def _responses(endpoint: Endpoint, names: _Names) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in endpoint.answers.items():
        responses[str(status)] = _answer(status, kind, endpoint.media, names)
    for status, codes in _by_status(endpoint, names.definitions).items():
        shown = responses.setdefault(str(status), _answer(status, None, (), names))
        shown.setdefault("content", {})[PROBLEM] = {"schema": _problem(status, codes, names)}
    for shown_as, answer in responses.items():
        answer["headers"] = answered_by(endpoint, int(shown_as))
    return responses


def _answer(status: int, kind: Any, media: tuple[str, ...], names: _Names) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": phrase_of(status)}
    if kind is None:
        return answer
    if kind == EVENT_STREAM:
        answer["content"] = {EVENT_STREAM: {"schema": EVENTS}}
        return answer
    if isinstance(kind, str):
        answer["content"] = {one: {"schema": {"type": "string"}} for one in (kind, *media)}
        return answer
    shape = isinstance(kind, type) and issubclass(kind, View)
    schema = names.ref(kind) if shape and isinstance(kind, type) else {"type": "object"}
    answer["content"] = {JSON: {"schema": schema}}
    answer["content"] |= {one: {"schema": {"type": "string"}} for one in media}
    return answer


def _by_status(endpoint: Endpoint, definitions: list[Definition]) -> dict[int, list[str]]:
    codes = set(endpoint.all_codes())
    if DECLARED in endpoint.codes:
        codes |= {code for definition in definitions for code in definition.workflow.codes}
    by_status: dict[int, list[str]] = {}
    for code in sorted(codes):
        by_status.setdefault(status_of(code, definitions), []).append(code)
    return by_status


def _problem(status: int, codes: list[str], names: _Names) -> dict[str, Any]:
    narrowed = {"status": {"const": status}, "error_code": {"enum": codes}}
    return {"allOf": [names.ref(Problem), {"type": "object", "properties": narrowed}]}


def _command_paths(names: _Names, table: Sequence[Endpoint]) -> dict[str, Any]:
    """Each declared command under its own name, with the fields it has in each workflow."""
    generic = next(one for one in table if one.name == "commandJob")
    paths: dict[str, Any] = {}
    for command in sorted({command for _, command in names.commands}):
        by_workflow = names.fields_of(command)
        operation = _operation(generic, names)
        operation["operationId"] = f"commandJob:{command}"
        operation["summary"] = f"The command {command!r} of {', '.join(by_workflow)}"
        parameters = operation["parameters"]
        operation["parameters"] = [one for one in parameters if one["name"] != "command"]
        schema = {"anyOf": list(by_workflow.values())}
        operation["requestBody"]["content"][JSON]["schema"] = schema
        paths[f"/jobs/{{id}}/{command}"] = operation
    return paths
