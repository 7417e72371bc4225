"""The words of a picture: what its arrows and boxes say.

Where one move leads from many states to the same target (a cancel, a failure), it is told once,
beside the target, and not by a dozen lines across the page.
"""

from msgspec import Struct

from jobrunner.core.declaration.workflow import Definition, Edge, State, Workflow

MANY = 4
FILLS = {
    "waiting": ("#fff7e0", "#b8860b"),
    "queued": ("#e8f0fe", "#3367d6"),
    "active": ("#e3f6e8", "#1e8e3e"),
    "settled": ("#f3e8fd", "#8430ce"),
    "final": ("#f1f3f4", "#5f6368"),
}


class Arrow(Struct, frozen=True):
    """Edges to one target that say the same. ``sources`` are several where they are bundled."""

    sources: tuple[str, ...]
    target: str
    lines: tuple[str, ...]


def moves_of(workflow: Workflow) -> list[Arrow]:
    """List every declared pair, those of a kind together if they are many."""
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for source, edges in Definition(workflow).table.items():
        for target, edge in edges.items():
            alike.setdefault((target, label_of(edge)), []).append(source)
    moves: list[Arrow] = []
    for (target, lines), sources in alike.items():
        if len(sources) >= MANY:
            moves.append(Arrow(tuple(sources), target, lines))
        else:
            moves += [Arrow((source,), target, lines) for source in sources]
    return moves


def label_of(edge: Edge) -> tuple[str, ...]:
    """Write who takes an edge, what is asked before, what it costs."""
    lines = [", ".join(edge.by) or "admin"]
    for guard in edge.guards:
        instead = f", else {guard.otherwise[-1]}" if guard.otherwise else ""
        line = f"if {guard.call.name}{instead}"
        if line not in lines:
            lines.append(line)
    if edge.money:
        lines.append(f"money: {edge.money}")
    return tuple(lines)


def remarks_of(state: State) -> list[str]:
    """Write what a box says beside its name."""
    lines: list[str] = [state.kind]
    bound = sorted({*state.stage.values(), *({state.on_demand} - {""})})
    if bound or state.kind == "active":
        lines.append(", ".join(bound) or "external")
    if state.deadline is not None and state.deadline.after_s:
        path = state.deadline.path
        lines.append(f"{state.deadline.after_s:g} s" + (f", then {path[-1]}" if path else ""))
    if state.retry is not None:
        end = f", then {state.retry.failed[-1]}" if state.retry.failed else ""
        lines.append(f"{state.retry.max} attempts{end}")
    return lines
