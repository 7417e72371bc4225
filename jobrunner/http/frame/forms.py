"""Decoders for bodies whose struct is the workflow's to say: params, and fields of commands."""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.core.declaration.workflow import Command, Definition
from jobrunner.errors import PluginFault, Refused
from jobrunner.http.frame.bodies import decode, decode_whole, fault_of
from jobrunner.http.wire import NoFields, Prose, Version

COMMON: tuple[tuple[str, Any, Any], ...] = (
    ("reason", Prose | None, None),
    ("expected_version", Version | None, None),
)


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
    """What has its default because nobody gave it, where that is not to be shown."""
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
