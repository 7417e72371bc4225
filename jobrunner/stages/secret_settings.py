"""Finds the secrets among a workflow's settings: values of variables that they name, what is called
a secret, and the credentials in an address."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

NAMES = re.compile(r"(?:^|_)(?:key|token|secret|password|credentials)$")
VARIABLES = re.compile(r"(?:^|_)(?:key|token|secret|secrets|password)_env$")
PASSES = re.compile(r"[a-z][a-z0-9+.-]*://([^/\s@]+)@", re.IGNORECASE)


def secrets_of_settings(settings: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from secrets_of_settings(value, environ)
        elif name == "environment" and isinstance(value, list | tuple):
            yield from (environ.get(str(variable), "") for variable in value)
        elif isinstance(value, str) and VARIABLES.search(name):
            yield environ.get(value, "")
        elif isinstance(value, str):
            yield from _stands_in(name, value)


def _stands_in(name: str, value: str) -> Iterator[str]:
    if NAMES.search(name):
        yield value
    for passed in PASSES.findall(value):
        yield unquote(passed.rpartition(":")[2])
