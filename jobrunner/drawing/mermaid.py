"""A workflow as text for mermaid."""

import re
from collections.abc import Iterator

from jobrunner.core.declaration.workflow import Workflow
from jobrunner.drawing.labels import FILLS, Arrow, moves_of, remarks_of

RESERVED = frozenset({"as", "class", "default", "direction", "end", "note", "state", "style"})


def mermaid(workflow: Workflow) -> str:
    """A stateDiagram-v2."""
    lines = ["stateDiagram-v2"]
    for state in workflow.states:
        lines.append(f'    state "{state.name}" as {_id(state.name)}')
        lines += [f"    {_id(state.name)} : {line}" for line in remarks_of(state)]
    lines.append(f"    [*] --> {_id(workflow.initial)}")
    for move in moves_of(workflow):
        lines += _arrows(move)
    lines += [f"    {_id(s.name)} --> [*]" for s in workflow.states if s.kind == "final"]
    lines += _classes(workflow)
    return "\n".join(lines) + "\n"


def _arrows(move: Arrow) -> Iterator[str]:
    label = " · ".join(move.lines).replace(":", "")  # a second colon ends a label there
    if len(move.sources) == 1:
        yield f"    {_id(move.sources[0])} --> {_id(move.target)} : {label}"
        return
    for source in move.sources:
        yield f"    {_id(source)} --> {_id(move.target)}"
    yield f"    note right of {_id(move.target)}"
    yield f"        from {', '.join(move.sources)}"
    yield f"        {label}"
    yield "    end note"


def _classes(workflow: Workflow) -> Iterator[str]:
    for kind, (fill, stroke) in FILLS.items():
        members = [_id(state.name) for state in workflow.states if state.kind == kind]
        if members:
            width = "3px" if kind == "final" else "1px"
            yield f"    classDef {kind} fill:{fill},stroke:{stroke},stroke-width:{width},color:#222"
            yield f"    class {','.join(members)} {kind}"


def _id(name: str) -> str:
    """A name that mermaid takes for one."""
    plain = re.sub(r"\W", "_", name)
    return f"{plain}_" if plain.lower() in RESERVED or not plain[:1].isalpha() else plain
