"""A workflow as an SVG that needs nothing else. Every pair that may be walked is drawn."""

from collections.abc import Iterator
from html import escape
from itertools import pairwise

from jobrunner.core.declaration.workflow import Definition, State, Workflow
from jobrunner.drawing.labels import FILLS, Arrow, label_of, moves_of, remarks_of
from jobrunner.drawing.layout import BoxLink, Layout, Point, Size, layered

NAME_PX, TEXT_PX = 8.4, 6.4
NAME_LINE, TEXT_LINE = 18, 14
MARGIN = 28


def svg(workflow: Workflow) -> str:
    """A drawing on its own: no script, no font, no reference to anything."""
    states = {state.name: state for state in workflow.states}
    moves = [move for move in moves_of(workflow) if (move.target,) != move.sources]
    boxes = {name: _box_size(workflow, state) for name, state in _from_the_top(workflow).items()}
    boxes |= {_bundle(move): _text_size(_members(workflow, move)) for move in moves if _many(move)}
    links = [BoxLink(_bundle(move), move.target, _text_size(move.lines)) for move in moves]
    layout = layered(boxes, links)
    parts = [*_head(workflow, layout)]
    for move, route in zip(moves, layout.routes, strict=True):
        parts.append(_curve(route, dashed=_many(move)))
    for move, spot in zip(moves, layout.labels, strict=True):
        parts += _plate(move.lines, spot)
        if _many(move):
            parts += _pill(_members(workflow, move), layout.spots[_bundle(move)])
    for name, state in states.items():
        parts += _box(workflow, state, layout.spots[name])
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _from_the_top(workflow: Workflow) -> dict[str, State]:
    first = sorted(workflow.states, key=lambda state: state.name != workflow.initial)
    return {state.name: state for state in first}


def _many(move: Arrow) -> bool:
    return len(move.sources) > 1


def _bundle(move: Arrow) -> str:
    """The box that a line leaves: a state, or the list of many."""
    if not _many(move):
        return move.sources[0]
    return f"{'|'.join(move.sources)}>{move.target}"


def _members(workflow: Workflow, move: Arrow) -> tuple[str, ...]:
    open_states = {state.name for state in workflow.states if state.kind != "final"}
    if set(move.sources) == open_states:
        return ("from every state", "that is not final")
    thirds = range(0, len(move.sources), 3)
    return ("from each of", *(", ".join(move.sources[at : at + 3]) for at in thirds))


def _box_lines(workflow: Workflow, state: State) -> list[str]:
    edge = Definition(workflow).table[state.name].get(state.name)
    again = [f"↻ {line}" for line in label_of(edge)] if edge else []
    return remarks_of(state) + again


def _box_size(workflow: Workflow, state: State) -> Size:
    lines = _box_lines(workflow, state)
    width = max(len(state.name) * NAME_PX, *(len(line) * TEXT_PX for line in lines))
    return Size(width + 28, NAME_LINE + TEXT_LINE * len(lines) + 16)


def _text_size(lines: tuple[str, ...]) -> Size:
    return Size(max(map(len, lines)) * TEXT_PX + 12, TEXT_LINE * len(lines) + 6)


def _head(workflow: Workflow, layout: Layout) -> Iterator[str]:
    wide, high = f"{layout.size.width + 2 * MARGIN:.0f}", f"{layout.size.height + 3 * MARGIN:.0f}"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {wide} {high}" '
        f'width="{wide}" height="{high}" font-size="11" '
        "font-family=\"system-ui, 'DejaVu Sans', sans-serif\">"
    )
    yield f"<title>{escape(f'{workflow.name} {workflow.version}')}</title>"
    yield (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0,1 L10,5 L0,9 z" fill="#5f6368"/>'
        "</marker></defs>"
    )
    yield f'<rect width="{wide}" height="{high}" fill="#ffffff"/>'
    yield f'<g transform="translate({MARGIN},{2 * MARGIN})" fill="#202124" text-anchor="middle">'
    x, y = layout.spots[workflow.initial]
    top = y - _box_size(workflow, Definition(workflow).states[workflow.initial]).height / 2
    yield f'<circle cx="{x:.1f}" cy="{top - 26:.1f}" r="5"/>'
    yield _curve(((x, top - 22), (x, top)))


def _curve(route: tuple[Point, ...], dashed: bool = False) -> str:
    """Through all points, upright in each of them."""
    path = [f"M{route[0][0]:.1f},{route[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in pairwise(route):
        middle = (y0 + y1) / 2
        path.append(f"C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f}")
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<path d="{" ".join(path)}" fill="none" stroke="#5f6368" stroke-width="1.2"{dash} '
        'marker-end="url(#arrow)"/>'
    )


def _plate(lines: tuple[str, ...], spot: Point) -> Iterator[str]:
    """A label, on a ground of its own over the line."""
    size = _text_size(lines)
    yield _rect(spot, size, 'rx="4" fill="#ffffff" fill-opacity="0.92"')
    yield from _text(lines, spot, size.height)


def _pill(lines: tuple[str, ...], spot: Point) -> Iterator[str]:
    size = _text_size(lines)
    yield _rect(spot, size, 'rx="12" fill="#ffffff" stroke="#9aa0a6" stroke-dasharray="4 3"')
    yield from _text(lines, spot, size.height)


def _text(lines: tuple[str, ...], spot: Point, height: float) -> Iterator[str]:
    first = spot[1] - height / 2 + 3 + TEXT_LINE * 0.75
    for number, line in enumerate(lines):
        yield f'<text x="{spot[0]:.1f}" y="{first + number * TEXT_LINE:.1f}">{escape(line)}</text>'


def _box(workflow: Workflow, state: State, spot: Point) -> Iterator[str]:
    fill, stroke = FILLS[state.kind]
    size = _box_size(workflow, state)
    x, top = spot[0], spot[1] - size.height / 2
    yield _rect(spot, size, f'rx="7" fill="{fill}" stroke="{stroke}" stroke-width="1.4"')
    if state.kind == "final":
        inner = Size(size.width - 7, size.height - 7)
        yield _rect(spot, inner, f'rx="5" fill="none" stroke="{stroke}"')
    yield (
        f'<text x="{x:.1f}" y="{top + 8 + NAME_LINE * 0.7:.1f}" font-size="13" '
        f'font-weight="bold">{escape(state.name)}</text>'
    )
    first = top + 8 + NAME_LINE + TEXT_LINE * 0.7
    for number, line in enumerate(_box_lines(workflow, state)):
        y = first + number * TEXT_LINE
        yield f'<text x="{x:.1f}" y="{y:.1f}" fill="{stroke}">{escape(line)}</text>'


def _rect(spot: Point, size: Size, look: str) -> str:
    x, y = spot[0] - size.width / 2, spot[1] - size.height / 2
    place = f'x="{x:.1f}" y="{y:.1f}" width="{size.width:.1f}" height="{size.height:.1f}"'
    return f"<rect {place} {look}/>"
