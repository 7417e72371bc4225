"""Inputs of a call: the fields that bodies and queries are made of, the job of a path, a key, a
cursor, and bodies whose struct a workflow declares."""

import re
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from jobrunner.core.access import foreign, unknown
from jobrunner.core.declaration.spelling import ARTIFACT, USER
from jobrunner.core.declaration.workflow import Command, Definition
from jobrunner.core.job import JOB_ID, Snapshot
from jobrunner.errors import PluginFault, Refused
from jobrunner.http.frame.bodies import decode, decode_whole, fault_of
from jobrunner.http.frame.endpoint import Body, HttpCall, Query
from jobrunner.http.frame.problems import invalid

WAIT_MAX_S = 60
SEAL = "c1-"
CURSOR = r"^c1-[0-9a-f]{1,15}$"

Key = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]{1,255}(?!\n)$",
        description="1 to 255 visible ASCII characters. Under one key nothing is done twice.",
    ),
]
Instant = Annotated[datetime, Meta(tz=True, description="RFC 3339, with an offset")]
Version = Annotated[int, Meta(ge=1, le=2**53)]
Count = Annotated[int, Meta(ge=1, le=2**53)]
Name = Annotated[str, Meta(min_length=1, max_length=64)]
Word = Annotated[str, Meta(min_length=1, max_length=128)]
Prose = Annotated[str, Meta(max_length=2000)]
UserId = Annotated[str, Meta(pattern=rf"^{USER.pattern}(?!\n)$")]
# ``$`` alone lets a line break through.
ArtifactName = Annotated[str, Meta(pattern=rf"^{ARTIFACT.pattern}(?!\n)$")]
AssetType = Annotated[str, Meta(pattern=rf"^{ARTIFACT.pattern}(?!\n)$")]
AssetId = Annotated[str, Meta(pattern=rf"^{JOB_ID.pattern}(?!\n)$")]
LabelKey = Annotated[str, Meta(pattern=r"^[^:\x00-\x20]{1,63}(?!\n)$")]
LabelValue = Annotated[str, Meta(max_length=255, pattern=r"^[^\x00]*$")]
# What is space to one language is none to another; these are to any.
SPACE = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
# Published as they are, and refused in words of their own.
Cursor = Annotated[str, Meta(max_length=64, extra_json_schema={"pattern": CURSOR})]

COMMON: tuple[tuple[str, Any, Any], ...] = (
    ("reason", Prose | None, None),
    ("expected_version", Version | None, None),
)


class NoFields(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that says nothing."""


class Reasoned(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Prose | None = None


class WaitQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wait: Annotated[float, Meta(ge=0, le=WAIT_MAX_S)] = 0


class PageQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: Cursor | None = None


class RowsQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000
    cursor: Cursor | None = None


class OwnedQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``user_id`` is for admins."""

    user_id: str | None = None


class OwnedPageQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``user_id`` is for admins; of files, also for who has claimed a job that may look at them."""

    user_id: str | None = None


def job_id_of(call: HttpCall) -> str:
    """Raises: Refused NOT_FOUND for what cannot be an id; nobody else need look for it."""
    job_id = call.path["id"]
    if JOB_ID.fullmatch(job_id) is None:
        raise unknown(job_id)
    return job_id


async def visible_job(call: HttpCall) -> Snapshot:
    """Raises: Refused NOT_FOUND, or what the workflow has for strangers."""
    job_id = job_id_of(call)
    job = await call.door.reader.job(job_id)
    if job is None:
        raise unknown(job_id)
    if refused := foreign(call.door.facade.definitions.of(job), job, call.actor):
        raise refused
    return job


async def governed_job(call: HttpCall) -> tuple[Snapshot, Definition]:
    """A visible job with its declaration, for whoever wants to change it.

    Raises: also Refused WORKFLOW_UNAVAILABLE.
    """
    job = await visible_job(call)
    definition = call.door.facade.definitions.of(job)
    if definition is None:
        raise unavailable(job.workflow)
    return job, definition


def unavailable(workflow: str) -> Refused:
    return Refused("WORKFLOW_UNAVAILABLE", f"workflow {workflow!r} is not loaded; ask the operator")


def params_of(definition: Definition, job_type: str, raw: bytes, root: str) -> dict[str, Any]:
    """Checked, with defaults filled in.

    Raises: Refused INVALID_PARAMS.
    """
    try:
        value = decode_whole(raw or b"{}", _params_decoder(definition, job_type))
    except msgspec.ValidationError as error:
        path, message = fault_of(error, root)
        detail = f"{path}: {message}"
        faults = [{"path": path, "message": message}]
        raise Refused("INVALID_PARAMS", detail, errors=faults) from None
    filled: dict[str, Any] = msgspec.to_builtins(value)
    return filled


def omitted_of(
    definition: Definition, job_type: str, params: dict[str, Any], raw: bytes
) -> tuple[str, ...]:
    """Name the params that have their default, where defaults are not to be shown."""
    if not definition.job_types[job_type].as_given:
        return ()
    given = msgspec.json.decode(raw or b"{}")
    return tuple(name for name in params if name not in given)


def command_fields(
    definition: Definition, command: Command, raw: bytes
) -> tuple[dict[str, Any], str | None, int | None]:
    """The command's own fields, and the reason and version that any command may be given with.

    Raises: Refused VALIDATION_ERROR.
    """
    if command.fields and command.fields not in definition.structs:
        name, struct = definition.workflow.name, f"struct {command.fields}"
        raise PluginFault(name, struct, "is not there", missing=True).refusal()
    own, decoder = _command_decoder(definition, command.name)
    body = decode(raw or b"{}", decoder)
    said: dict[str, Any] = msgspec.to_builtins(body)
    reason, version = said.get("reason"), said.get("expected_version")
    return {name: value for name, value in said.items() if name in own}, reason, version


def command_body(definition: Definition, command: Command) -> type[Struct]:
    """The struct of a command's body: its own fields and the common ones."""
    own = definition.structs[command.fields] if command.fields else NoFields
    names = own.__struct_fields__
    added = [field for field in COMMON if field[0] not in names]
    title = "".join(word.capitalize() for word in command.name.split("-"))
    return msgspec.defstruct(
        f"{title}Command",
        added,
        bases=(own,),
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
        module=f"{definition.workflow.name}.commands",
    )


@lru_cache(maxsize=512)
def _params_decoder(definition: Definition, job_type: str) -> "msgspec.json.Decoder[Struct]":
    return msgspec.json.Decoder(definition.structs[definition.job_types[job_type].params])


@lru_cache(maxsize=512)
def _command_decoder(
    definition: Definition, name: str
) -> "tuple[frozenset[str], msgspec.json.Decoder[Struct]]":
    command = definition.commands[name]
    own = definition.structs[command.fields] if command.fields else NoFields
    decoder = msgspec.json.Decoder(command_body(definition, command))
    return frozenset(own.__struct_encode_fields__), decoder


def key_given(call: HttpCall, in_body: str | None, length_max: int = 255) -> str | None:
    """Take the idempotency key from the header or the body, whichever has it.

    Raises: Refused VALIDATION_ERROR.
    """
    header = call.headers.get("Idempotency-Key")
    if header is not None and in_body is not None and header != in_body:
        raise _bad("the header Idempotency-Key and idempotency_key differ; send one of them")
    key = in_body if header is None else header
    if key is None:
        return None
    if key and not is_visible(key):
        raise _bad("idempotency_key: visible ASCII only")
    if not 1 <= len(key) <= length_max:
        raise _bad(f"idempotency_key: 1 to {length_max} characters, not {len(key)}")
    return key


def is_visible(text: str) -> bool:
    """Say whether there is something, of visible ASCII letters alone."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _bad(detail: str) -> Refused:
    return invalid(detail, ("$.idempotency_key", detail))


def needs_one(*names: str) -> dict[str, Any]:
    """Make the rule of a schema that at least one of these fields is there, and says something."""
    said = {"not": {"type": "null"}}
    return {"anyOf": [{"required": [name], "properties": {name: said}} for name in names]}


def not_both(one: str, other: str) -> dict[str, Any]:
    """Make the rule of a schema that at most one of these fields says something."""
    return {"not": {"allOf": [needs_one(one), needs_one(other)]}}


def cursor_of(key: int | None) -> str | None:
    """Make the cursor of the next page; None when there is nothing further."""
    return None if key is None else f"{SEAL}{key:x}"


def key_of(cursor: str | None) -> int | None:
    """Raises: Refused VALIDATION_ERROR for what never was a cursor of ours."""
    if cursor is None:
        return None
    if "\n" in cursor or not re.match(CURSOR, cursor):
        detail = "cursor: take it as it came in next_cursor"
        raise invalid(detail, ("cursor", detail))
    return int(cursor.removeprefix(SEAL), 16)


def owner_of(call: HttpCall, query: OwnedQuery | OwnedPageQuery) -> str:
    if query.user_id in (None, call.actor.name):
        return call.actor.name
    if not call.actor.oversees:
        raise Refused("FORBIDDEN", "what belongs to others is for admins to see")
    return str(query.user_id)


def following_cursor(keys: list[int], query: PageQuery) -> str | None:
    """A page that is full may have a successor."""
    return cursor_of(keys[-1]) if len(keys) == query.limit else None
