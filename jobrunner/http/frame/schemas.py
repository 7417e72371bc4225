"""The schemas of the document: one for each struct, under a name of its own that no other plugin
changes, and in the few forms that whatever reads such documents understands."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from jobrunner.core.credits import Standing
from jobrunner.core.declaration.states import End, Kind, TokenRole, Trigger
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.bulk import BUILT_IN
from jobrunner.errors import STATUS_OF_CODE
from jobrunner.http.frame.bodies import INTEGER_MAX
from jobrunner.http.frame.endpoint import Body, Endpoint
from jobrunner.http.frame.inputs import command_body
from jobrunner.http.frame.problems import Problem
from jobrunner.http.frame.views import Job

Schema = dict[str, Any]

PLACE = "#/components/schemas/"
REF = PLACE + "{name}"
# What is published under another name than its class has: outside, these names are contract. None
# is called like a member of its own, which some languages cannot tell apart.
PUBLISHED = {
    "Again": "Rerun",
    "Allowed": "AllowedNext",
    "AnyCommand": "Command",
    "Assets": "AssetList",
    "AuditLog": "AuditList",
    "CreditsView": "Credits",
    "DeadLetters": "DeadLetterList",
    "Endpoints": "EndpointList",
    "History": "HistoryList",
    "Jobs": "JobList",
    "LedgerLine": "LedgerEntry",
    "Money": "JobCredits",
    "PauseOrder": "JobPause",
    "Progress": "ProgressReport",
    "Reasoned": "ReasonGiven",
    "Secrets": "SecretList",
    "Tokens": "TokenList",
    "TransitionOrder": "Transition",
    "Which": "JobFilter",
    "Workflows": "WorkflowList",
}
# Words that more than one schema takes from the same few.
ENUMS = {
    "CreditState": Standing,
    "JobEnd": End,
    "JobKind": Kind,
    "TokenRole": TokenRole,
    "Trigger": Trigger,
}
# To these, members are added that no list here has: what a code or a command brings of its own.
OPEN = (Problem, Job)
# Keywords whose value is a schema, and those that have several, by name or in a row.
ONE = frozenset({"additionalProperties", "else", "if", "items", "not", "propertyNames", "then"})
NAMED = frozenset({"$defs", "properties"})
ROW = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})


class Schemas:
    """The components, and where each is referred to."""

    def __init__(self, table: Sequence[Endpoint], definitions: list[Definition]) -> None:
        self.definitions = definitions
        self.commands = {
            (definition.workflow.name, command.name): command_body(definition, command)
            for definition in definitions
            for command in definition.workflow.commands
            if command.fields
        }
        self.params = {
            (definition.workflow.name, job_type.name): definition.structs[job_type.params]
            for definition in definitions
            for job_type in definition.workflow.job_types
        }
        kinds = list(_with_inner([*_structs(table), *self._declared(definitions)]))
        refs, found = msgspec.json.schema_components(kinds, ref_template=REF)
        self._names = dict(zip(kinds, self._named(kinds), strict=True))
        self._kinds = {_name_in(ref): kind for ref, kind in zip(refs, kinds, strict=True)}
        self.components = {
            self._names[kind]: self._published(kind, found[name])
            for name, kind in self._kinds.items()
        }
        self.components |= {name: _enum(get_args(of)) for name, of in ENUMS.items()}
        self.components["ErrorCode"] = _enum(self.codes)
        if self.params:
            choices = [self.ref(one) for one in dict.fromkeys(self.params.values())]
            fits = choices[0] if len(choices) == 1 else {"anyOf": choices}
            title = {"title": "JobParams", "description": "As the job type wants them."}
            self.components["JobParams"] = title | ANYTHING | _always([fits])

    @property
    def codes(self) -> list[str]:
        """Describe every code that an answer may have."""
        own = [definition.workflow.codes for definition in self.definitions]
        return sorted({*STATUS_OF_CODE, *(code for codes in own for code in codes)})

    def ref(self, kind: type[Any]) -> Schema:
        return {"$ref": PLACE + self._names[kind]}

    def fields_of(self, command: str) -> list[Schema]:
        """The fields that a command has of its own, in whatever workflow."""
        return [self.ref(kind) for (_, name), kind in self.commands.items() if name == command]

    def _declared(self, definitions: list[Definition]) -> Iterator[type[Struct]]:
        """List the structs that workflows bring, those of each together."""
        for definition in definitions:
            for of in (self.params, self.commands):
                workflow = definition.workflow.name
                yield from (kind for (name, _), kind in of.items() if name == workflow)

    def _named(self, kinds: list[type[Struct]]) -> Iterator[str]:
        """Give each struct one name: ours are the class's or another published one, those of
        workflows begin with the workflow's, so that none depends on what else is loaded."""
        taken = {*ENUMS, "ErrorCode", "JobParams"}
        theirs = self._theirs()
        for kind in kinds:
            name = theirs.get(kind) or PUBLISHED.get(kind.__name__, kind.__name__)
            while name in taken:
                name += "Too"
            taken.add(name)
            yield name

    def _theirs(self) -> dict[type[Struct], str]:
        named: dict[type[Struct], str] = {}
        for definition in self.definitions:
            for route in definition.workflow.routes:
                if route.body:
                    kind = definition.structs[route.body]
                    named.setdefault(kind, camel(definition.workflow.name) + camel(kind.__name__))
        for of, end in ((self.params, "Params"), (self.commands, "Command")):
            for (workflow, name), kind in of.items():
                named.setdefault(kind, camel(workflow) + camel(name) + end)
                for inner in _with_inner([kind]):
                    named.setdefault(inner, camel(workflow) + camel(inner.__name__))
        return named

    def _published(self, kind: type[Struct], schema: Schema) -> Schema:
        schema = mapped(schema, lambda one: _tidy(self._referred(one)))
        schema["title"] = self._names[kind]
        _drop_twins(schema["properties"])
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].replace("``", "`").split())
        schema |= {"additionalProperties": True} if kind in OPEN else {}
        if kind is Problem:
            schema["properties"]["error_code"] = {"$ref": PLACE + "ErrorCode"}
        if issubclass(kind, Body):
            self._say_what_is_loaded(kind, schema)
        rules = getattr(kind, "rules", ())
        if rules and isinstance(rules, tuple):  # a field may be called so as well
            schema |= _always([mapped(rule, _tidy) for rule in rules])
        return schema

    def _referred(self, schema: Schema) -> Schema:
        """The same with the names of here."""
        if "$ref" not in schema:
            return schema
        return schema | {"$ref": PLACE + self._names[self._kinds[_name_in(schema)]]}

    def _say_what_is_loaded(self, kind: type[Body], schema: Schema) -> None:
        """Fill in the fields that loaded workflows have the say of."""
        params = {"$ref": PLACE + "JobParams"} if self.params else dict(ANYTHING)
        declared = {
            command.name
            for definition in self.definitions
            for command in definition.workflow.commands
        }
        said: dict[str, Schema] = {
            "workflows": {"examples": [one.workflow.name for one in self.definitions]},
            "params": params,
            "commands": {"enum": sorted(declared | set(BUILT_IN))},
        }
        for name, what in kind.from_workflows.items():
            schema["properties"][name] |= said[what]


ANYTHING: Schema = {"type": "object", "additionalProperties": True}


def mapped(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """Change each schema of a schema, the inner ones first. A property may be called like a
    keyword."""
    if not isinstance(schema, dict):
        return schema
    found: Schema = {}
    for key, value in schema.items():
        if key in ONE:
            found[key] = mapped(value, change)
        elif key in NAMED:
            found[key] = {name: mapped(inner, change) for name, inner in value.items()}
        elif key in ROW:
            found[key] = [mapped(inner, change) for inner in value]
        else:
            found[key] = value
    return change(found)


def camel(text: str) -> str:
    """Write ``static-ad`` as StaticAd."""
    words = "".join(letter if letter.isalnum() else " " for letter in text).split()
    return "".join(word[0].upper() + word[1:] for word in words)


def tidied(schema: Schema) -> Schema:
    found: Schema = mapped(schema, _tidy)
    return found


def _tidy(schema: Schema) -> Schema:
    """Choose one form for each thing that can be said in several ways. Whole numbers go as far as
    everybody's JSON can tell them apart: ``bodies`` takes no others."""
    schema = _named_enum(_flat(_nullable(schema)))
    if "integer" in _types(schema):
        schema.setdefault("minimum", -INTEGER_MAX)
        schema.setdefault("maximum", INTEGER_MAX)
        schema["format"] = "int64"
    if schema == {"type": "object"}:
        return dict(ANYTHING)
    if schema.get("items") is False:  # maxItems says it, and is understood by all
        del schema["items"]
    for name, inner in schema.get("properties", {}).items():
        if (name == "at" or name.endswith("_at")) and "string" in _types(inner):
            inner["format"] = "date-time"
        _describe_default(inner)
    return schema


def _describe_default(schema: Schema) -> None:
    """Say a default in words: some readers take what has one for what is always there."""
    value = schema.pop("default", None)
    if value is not None:
        words = f"Default: {msgspec.json.encode(value).decode()}"
        schema["description"] = f"{schema.get('description', '')} {words}".strip()


def _types(schema: Schema) -> list[str]:
    said: str | list[str] = schema.get("type", [])
    return [said] if isinstance(said, str) else said


def _nullable(schema: Schema) -> Schema:
    """Write that something may be null into its type, where it has one."""
    kinds = schema.get("anyOf", [])
    others = [one for one in kinds if one != {"type": "null"}]
    if len(kinds) != 2 or len(others) != 1 or not isinstance(others[0].get("type"), str):
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    (one,) = others
    either: Schema = one | {"type": [one["type"], "null"]} | rest
    return either | ({"enum": [*one["enum"], None]} if "enum" in one else {})


def _flat(schema: Schema) -> Schema:
    """A choice of one is none."""
    for key in ("anyOf", "allOf"):
        if len(schema.get(key, ())) == 1:
            (only,) = schema[key]
            rest = {name: value for name, value in schema.items() if name != key}
            if not rest.keys() & only.keys():
                return {**only, **rest}
    return schema


def _named_enum(schema: Schema) -> Schema:
    """Words that have a name of their own, and words that say that they are words."""
    if "enum" not in schema:
        return schema
    words = frozenset(schema["enum"])
    for name, of in ENUMS.items():
        if words == frozenset(get_args(of)):
            rest = {key: value for key, value in schema.items() if key not in ("enum", "type")}
            return {"$ref": PLACE + name, **rest}
    return {"type": "string", **schema}


def _enum(words: Iterable[str]) -> Schema:
    return {"type": "string", "enum": list(words)}


def _always(rules: list[Schema]) -> Schema:
    """Say rules beside the fields, where those who only want the fields pass over them."""
    return {"if": {}, "then": rules[0] if len(rules) == 1 else {"allOf": rules}}


def _drop_twins(properties: dict[str, Schema]) -> None:
    """Publish only the first of two spellings of one name: to many languages they are the same."""
    seen: set[str] = set()
    for name in list(properties):
        plain = name.replace("_", "").lower()
        if plain in seen:
            del properties[name]
        seen.add(plain)


def _name_in(ref: Schema) -> str:
    return str(ref["$ref"]).removeprefix(PLACE)


def _structs(table: Iterable[Endpoint]) -> Iterator[type[Struct]]:
    yield from (Problem, Job)
    for endpoint in table:
        if not endpoint.listed:
            continue
        for kind in (endpoint.body, endpoint.shown_body, *endpoint.answers.values()):
            if isinstance(kind, type) and issubclass(kind, Struct):
                yield kind
        yield from endpoint.events.values()


def _with_inner(
    kinds: Iterable[type[Struct]], seen: set[type[Struct]] | None = None
) -> Iterator[type[Struct]]:
    """List each struct once, with those that its fields are made of."""
    seen = set() if seen is None else seen
    for kind in kinds:
        if kind not in seen:
            seen.add(kind)
            yield kind
            yield from _with_inner(_structs_in(field.type for field in fields(kind)), seen)


def _structs_in(hints: Iterable[Any]) -> Iterator[type[Struct]]:
    for hint in hints:
        if isinstance(hint, type) and issubclass(hint, Struct):
            yield hint
        yield from _structs_in(get_args(hint))
