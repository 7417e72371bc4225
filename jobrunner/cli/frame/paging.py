"""Rows over as many pages as it takes, from the newest on."""

from typing import Annotated, Any

from cyclopts import Parameter

from jobrunner.cli.frame.options import moment, positive
from jobrunner.cli.frame.service import RunningService
from jobrunner.cli.frame.system import clock

PAGE = 100
USUAL = 20
NO_LIMIT = 2**53

Limit = Annotated[
    int | None,
    Parameter(validator=positive, help=f"How many at most: {USUAL}, or with --since all."),
]
Since = Annotated[
    str | None,
    Parameter(help="Only those made since then: 2h ago, 3d ago, 2026-11-19, 2026-11-19T08:30."),
]


async def paged(
    running: RunningService,
    path: str,
    query: list[tuple[str, Any]],
    limit: int | None,
    since: str | None = None,
    *,
    at: str = "created_at",
    oldest: bool = False,
) -> list[dict[str, Any]]:
    """Rows in the order of the list, ``at`` being when each was made. A page may be short and not
    the last. From the oldest on, all since then are looked at first: no index leads there."""
    most, start = extent(limit, since)
    if oldest and start is not None:
        newest = await _rows(running, path, query, NO_LIMIT, start, at)
        return newest[::-1][:most]
    order = [("order", "oldest")] if oldest else []
    return await _rows(running, path, [*query, *order], most, start, at)


def extent(limit: int | None, since: str | None) -> tuple[int, str | None]:
    """How many rows, and since when."""
    start = moment(since, clock.now())
    return limit or (USUAL if start is None else NO_LIMIT), start


async def _rows(
    running: RunningService,
    path: str,
    query: list[tuple[str, Any]],
    most: int,
    start: str | None,
    at: str,
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = None
    while len(found) < most:
        size = min(PAGE, most - len(found))
        page = await running.get(path, [*query, ("limit", size), ("cursor", cursor)])
        for row in _list(page):
            if start is not None and row[at] < start:
                return found
            found.append(row)
        cursor = page["next_cursor"]
        if cursor is None:
            break
    return found


def _list(page: dict[str, Any]) -> list[dict[str, Any]]:
    """A page is one list, and where the next one begins."""
    return next(value for name, value in page.items() if name != "next_cursor")
