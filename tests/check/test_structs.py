"""A plugin's struct that this msgspec cannot hold is refused before it is ever used."""

import subprocess
import sys
from typing import Annotated, Any

from msgspec import Meta, Struct

from jobrunner.check.checking import check
from jobrunner.core.declaration.workflow import Definition
from tests.core.declared import SAMPLE, define

# In a process of its own, which ends before the collector can look at the struct.
CHILD = """
import os
from typing import Annotated, Any
from msgspec import Meta, defstruct
from jobrunner.check.structs import perilous
from jobrunner.core.declaration.workflow import Definition
from tests.core.declared import SAMPLE
import gc
gc.disable()
mixed = Annotated[str, Meta(pattern="x")] | dict[str, Any]
bad = defstruct("Bad", [("draft", mixed)])
for fault in perilous(Definition(SAMPLE, structs={"bad": bad})):
    print(fault.rule, fault.text, fault.trace, flush=True)
os._exit(0)
"""


class Plain(Struct):
    text: Annotated[str, Meta(pattern="x")] | None = None
    many: list[str] | dict[str, Any] | None = None


def test_plain_fields_are_no_fault() -> None:
    known = define(SAMPLE)
    definition = Definition(SAMPLE, known.functions, known.structs | {"plain": Plain})
    assert not [fault for fault in check(definition) if fault.rule == "struct"]


def test_a_perilous_field_is_named() -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=120, check=True
    )
    assert child.stdout.startswith("struct struct 'bad': field draft mixes text"), child.stderr
