"""The aims of ``overload``, and whether the rows of one run meet them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

GOODPUT = {2.0: 90.0, 5.0: 75.0, 10.0: 50.0}
POINTS_APART = 10.0
ENOUGH_PER_S = 20_000.0
REFUSAL_MS = 200.0
CALLBACK_MS = 250.0
REFUSAL_SHARE = 15.0


class Ran(Struct, frozen=True):
    """One run; ``times`` is 0 of the peak itself, ``of_peak`` a share of 1."""

    connections: int
    times: float
    of_peak: float
    made_per_s: float
    refused: int
    refused_p99_ms: float
    callback_p99_ms: float
    strange: int


class Aim(NamedTuple):
    """``found`` is the worst that was seen."""

    what: str
    found: str
    met: bool

    def __str__(self) -> str:
        return f"{'yes' if self.met else 'NO':3}  {self.what:58}  {self.found}"


def aims(rows: Iterable[Ran], refusal_share: float) -> list[Aim]:
    """List the aims that something was measured for. ``refusal_share``: a refusal's cost, in per
    cent of a job's."""
    all_rows = list(rows)
    found = [*_calm(all_rows), *_goodput(all_rows), *_apart(all_rows), *_delays(all_rows)]
    what = f"a refusal costs at most {REFUSAL_SHARE:.0f} % of a job"
    found.append(_at_most(what, refusal_share, "%", REFUSAL_SHARE))
    strange = sum(row.strange for row in all_rows)
    found.append(
        Aim("nothing broken, unanswered or without Retry-After", f"{strange}", not strange)
    )
    return found


def _calm(rows: list[Ran]) -> Iterator[Aim]:
    calm = [row for row in rows if 0 < row.times < 1]
    if calm:
        refused = sum(row.refused for row in calm)
        what = f"nobody refused below capacity, in {len(calm)} runs"
        yield Aim(what, f"{refused} refused", refused == 0)


def _goodput(rows: list[Ran]) -> Iterator[Aim]:
    for times, least in GOODPUT.items():
        at = [row for row in rows if row.times == times]
        if at:
            worst = min(at, key=lambda row: row.of_peak)
            met = 100 * worst.of_peak >= least or worst.made_per_s >= ENOUGH_PER_S
            found = f"{100 * worst.of_peak:.0f} % with {worst.connections} connections"
            yield Aim(f"at {times:g} times the peak at least {least:.0f} % of it made", found, met)


def _apart(rows: list[Ran]) -> Iterator[Aim]:
    """Say whether it matters how many connections there are: of several runs the mean counts."""
    for times in sorted({row.times for row in rows if row.times > 1}):
        means = _means([row for row in rows if row.times == times])
        if len(means) > 1:
            apart = max(means) - min(means)
            what = f"at {times:g} times no more than {POINTS_APART:.0f} points between connections"
            yield _at_most(what, apart, "points", POINTS_APART)


def _means(rows: list[Ran]) -> list[float]:
    shares: dict[int, list[float]] = {}
    for row in rows:
        shares.setdefault(row.connections, []).append(100 * row.of_peak)
    return [sum(found) / len(found) for found in shares.values()]


def _delays(rows: list[Ran]) -> Iterator[Aim]:
    refusals = max((row.refused_p99_ms for row in rows if row.refused), default=0.0)
    yield _at_most(f"refusals p99 at most {REFUSAL_MS:.0f} ms", refusals, "ms", REFUSAL_MS)
    callbacks = max((row.callback_p99_ms for row in rows), default=0.0)
    yield _at_most(f"callbacks p99 at most {CALLBACK_MS:.0f} ms", callbacks, "ms", CALLBACK_MS)


def _at_most(what: str, found: float, unit: str, most: float) -> Aim:
    return Aim(what, f"{found:.0f} {unit}", found <= most)
