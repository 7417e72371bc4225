"""A small layered layout: where boxes and lines go in a drawing.

Every box gets a level (the longest way to it from the top), every line a label, and lines that
pass a level get a place there like a box, so that neither lines nor labels run through anything.
Then each row is ordered so that few lines cross, and moved so that most of them run straight.
Levels of boxes are the even rows; the odd ones between them are for labels.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

SWEEPS = 24
GAP = 18.0
ROW_GAP = 22.0
LINE = 14.0
Point = tuple[float, float]


class Size(Struct, frozen=True):
    width: float
    height: float


class BoxLink(Struct, frozen=True):
    """A line between two different boxes, with the size of its label."""

    source: str
    target: str
    label: Size


class Layout(Struct, frozen=True):
    """Centres of boxes and of labels, and the way of every line, ends included."""

    size: Size
    spots: dict[str, Point]
    labels: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]


class Cell(Struct, eq=False):
    """A place in a row: of a box, of a label, or of a line that only passes."""

    size: Size
    row: int
    x: float = 0
    y: float = 0
    above: list["Cell"] = []
    below: list["Cell"] = []


class Chain(Struct, eq=False):
    """The cells of one line from the upper box to the lower; ``up``: its arrow points upwards."""

    cells: list[Cell]
    label: Cell
    up: bool


def layered(boxes: dict[str, Size], links: Sequence[BoxLink]) -> Layout:
    """Boxes in the order of the story; the first is the top."""
    upward = _upward(list(boxes), links)
    levels = _levels(list(boxes), links, upward)
    cells = {name: Cell(size, 2 * levels[name]) for name, size in boxes.items()}
    chains = [_chain(cells, link, number in upward) for number, link in enumerate(links)]
    rows = _rows(cells.values(), chains)
    _order(rows)
    _straighten(rows)
    size = _stack(rows)
    return Layout(
        size=size,
        spots={name: (cell.x, cell.y) for name, cell in cells.items()},
        labels=tuple((chain.label.x, chain.label.y) for chain in chains),
        routes=tuple(_route(chain) for chain in chains),
    )


# ---------------------------------------------------------------- levels


def _upward(names: list[str], links: Sequence[BoxLink]) -> set[int]:
    """The links that close a circle, as met on a walk from the top: they are drawn upwards."""
    leaving: dict[str, list[int]] = {name: [] for name in names}
    for number, link in enumerate(links):
        leaving[link.source].append(number)
    upward: set[int] = set()
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        for number in leaving[name]:
            target = links[number].target
            if target in path:
                upward.add(number)
            elif target not in done:
                visit(target, (*path, target))
        done.add(name)

    for name in names:
        if name not in done:
            visit(name, (name,))
    return upward


def _levels(names: list[str], links: Sequence[BoxLink], upward: set[int]) -> dict[str, int]:
    """The longest way from the top; there are no circles left."""
    levels = dict.fromkeys(names, 0)
    for _ in names:
        for number, link in enumerate(links):
            upper, lower = link.source, link.target
            if number in upward:
                upper, lower = lower, upper
            levels[lower] = max(levels[lower], levels[upper] + 1)
    return levels


# ---------------------------------------------------------------- rows


def _chain(cells: dict[str, Cell], link: BoxLink, up: bool) -> Chain:
    first, last = cells[link.source], cells[link.target]
    if up:
        first, last = last, first
    labelled = last.row - 1 if up else first.row + 1
    middle = [
        Cell(link.label if row == labelled else Size(LINE, 0), row)
        for row in range(first.row + 1, last.row)
    ]
    chain = [first, *middle, last]
    for upper, lower in pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return Chain(chain, next(cell for cell in middle if cell.row == labelled), up)


def _rows(boxes: Iterable[Cell], chains: list[Chain]) -> list[list[Cell]]:
    cells = [*boxes, *(cell for chain in chains for cell in chain.cells[1:-1])]
    rows: list[list[Cell]] = [[] for _ in range(max(cell.row for cell in cells) + 1)]
    for cell in cells:
        rows[cell.row].append(cell)
    return rows


def _order(rows: list[list[Cell]]) -> None:
    """Move each cell to the middle of its neighbours, down and up; the best state is kept."""
    _number(rows)
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _reorder(row, down)
        crossings = _crossings(rows)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    rows[:] = best
    _number(rows)


def _reorder(row: list[Cell], down: bool) -> None:
    def wish(cell: Cell) -> float:
        return _middle(cell.above if down else cell.below, cell.x)

    row.sort(key=wish)
    _number([row])


def _number(rows: list[list[Cell]]) -> None:
    for row in rows:
        for place, cell in enumerate(row):
            cell.x = place


def _middle(cells: list[Cell], otherwise: float) -> float:
    return sum(cell.x for cell in cells) / len(cells) if cells else otherwise


def _crossings(rows: list[list[Cell]]) -> int:
    total = 0
    for row in rows:
        lines = [(cell.x, below.x) for cell in row for below in cell.below]
        total += sum(1 for a in range(len(lines)) for b in range(a) if _cross(lines[a], lines[b]))
    return total


def _cross(one: Point, other: Point) -> bool:
    return (one[0] - other[0]) * (one[1] - other[1]) < 0


# ---------------------------------------------------------------- places


def _straighten(rows: list[list[Cell]]) -> None:
    for row in rows:
        _settle(row, [0.0] * len(row))
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _settle(row, [_middle(cell.above if down else cell.below, cell.x) for cell in row])
    for row in rows * SWEEPS:
        _settle(row, [_middle(cell.above + cell.below, cell.x) for cell in row])
    left = min(cell.x - cell.size.width / 2 for row in rows for cell in row)
    for row in rows:
        for cell in row:
            cell.x -= left


def _settle(row: list[Cell], wishes: list[float]) -> None:
    """Place cells as near to their wishes as order and room allow: neighbours that would overlap
    share the mean of what they want."""
    offsets = [0.0]
    for left, right in pairwise(row):
        offsets.append(offsets[-1] + (left.size.width + right.size.width) / 2 + GAP)
    blocks: list[tuple[float, int]] = []
    for wish, offset in zip(wishes, offsets, strict=True):
        place, count = wish - offset, 1
        while blocks and blocks[-1][0] > place:
            before, members = blocks.pop()
            place = (before * members + place * count) / (members + count)
            count += members
        blocks.append((place, count))
    places = [place for place, count in blocks for _ in range(count)]
    for cell, place, offset in zip(row, places, offsets, strict=True):
        cell.x = place + offset


def _stack(rows: list[list[Cell]]) -> Size:
    """Rows below each other; the size of it all."""
    y = 0.0
    for row in rows:
        height = max((cell.size.height for cell in row), default=0)
        for cell in row:
            cell.y = y + height / 2
        y += height + ROW_GAP
    width = max(cell.x + cell.size.width / 2 for row in rows for cell in row)
    return Size(width, y - ROW_GAP)


# ---------------------------------------------------------------- lines


def _route(chain: Chain) -> tuple[Point, ...]:
    """Lead a line from the source's edge to the target's, through every place in between."""
    first, *middle, last = chain.cells
    top = (_port(first, first.below, chain.cells[1]), first.y + first.size.height / 2)
    bottom = (_port(last, last.above, chain.cells[-2]), last.y - last.size.height / 2)
    points = [top]
    for cell in middle:
        half = max(cell.size.height / 2, ROW_GAP / 4)
        points += [(cell.x, cell.y - half), (cell.x, cell.y + half)]
    points.append(bottom)
    return tuple(reversed(points)) if chain.up else tuple(points)


def _port(box: Cell, neighbours: list[Cell], mine: Cell) -> float:
    """Lines share a side of a box in the order of where they go."""
    if len(neighbours) == 1:
        return _within(box, neighbours[0].x)
    place = sorted(neighbours, key=lambda cell: cell.x).index(mine)
    return box.x + box.size.width * ((place + 1) / (len(neighbours) + 1) - 0.5)


def _within(box: Cell, x: float) -> float:
    reach = box.size.width / 2 - 12
    return min(max(x, box.x - reach), box.x + reach)
