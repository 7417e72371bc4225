"""Stored parameters as the struct of their job type."""

from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.job import Snapshot


class Stale(Exception):
    """They no longer fit: the plugin has changed since they were sent."""


def kind_of(definition: Definition, job: Snapshot) -> type[Struct] | None:
    declared = definition.job_types.get(job.job_type)
    return definition.structs.get(declared.params) if declared else None


def params_of(definition: Definition, job: Snapshot) -> Any:
    """Raises: Stale."""
    kind = kind_of(definition, job)
    given = {} if job.params is msgspec.UNSET else job.params
    return given if kind is None else decoded(given, kind)


def decoded(given: Any, kind: type[Struct]) -> Any:
    """Leniently: what the struct does not know any more is ignored, and a number that was
    stored as text is one. Raises: Stale."""
    known = kind.__struct_encode_fields__
    if isinstance(given, dict) and not given.keys() <= set(known):
        given = {name: value for name, value in given.items() if name in known}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Stale(f"the parameters no longer fit {kind.__name__}: {error}") from error
