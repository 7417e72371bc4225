"""``GET /overview/charts``: the work of an hour, a day or a week.

They are made once for all who may see everything, and anew when there is something new to show. A
user's own are not stored, for that would be a row for each user and each bucket of time: they are
counted when it looks, over its newest jobs.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from jobrunner.core.instants import text_of
from jobrunner.core.keeping.charts import (
    EVERYTHING,
    SPANS,
    ChartRow,
    Counted,
    Series,
    Span,
    percentile_ms,
    series,
)
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpReply, Query, View
from jobrunner.http.frame.views import encode

OWN_MAX = 10_000
MEDIAN, NEARLY_ALL = 0.5, 0.99


class ChartsQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    span: Span = "hour"


class ChartTotals(View, frozen=True, kw_only=True):
    """All of a span. ``ended`` is by outcome, and how long it took is from the submission on, of
    those that ended within the span."""

    made: int
    ended: dict[str, int]
    p50_ms: float | None
    p99_ms: float | None


class WorkflowChart(View, frozen=True, kw_only=True):
    """A number for each bucket of time; where nothing ended there is no time that it took."""

    workflow: str | None
    made: list[int]
    ended: dict[str, list[int]]
    p50_ms: list[float | None]
    p99_ms: list[float | None]
    whole: ChartTotals


class ChartsView(View, frozen=True, kw_only=True):
    """The buckets begin at ``begins_at``, each ``step_s`` after the one before. The first chart is
    of all workflows together. Of the line: the most that stood there at once, and for how long the
    first of them had waited at the most."""

    span: Span
    begins_at: str
    step_s: int
    charts: list[WorkflowChart]
    in_line: list[int]
    waits_ms: list[int]


@Endpoint("GET", "/overview/charts", {200: ChartsView}, query=ChartsQuery)
async def get_charts(call: HttpCall) -> HttpReply:
    """Show how work went over an hour, a day or a week."""
    query: ChartsQuery = call.query
    keeper, about = call.door.facade.charts, SPANS[query.span]
    begins_at = about.begins_at(call.door.clock.now())
    if call.actor.role == "user":
        rows = await call.door.reader.own_charts(call.actor.name, about, begins_at, OWN_MAX)
        return HttpReply(200, encode(_view(query.span, begins_at, list(_by_outcome(call, rows)))))
    key, asof = (query.span, call.actor.workflows), (begins_at, keeper.written)
    told = keeper.told.get(key)
    if told is None or told[0] != asof:
        rows = await keeper.rows(query.span, begins_at)
        seen = [row for row in rows if _shows(call, row)]
        told = keeper.told[key] = asof, encode(_view(query.span, begins_at, seen))
    return HttpReply(200, told[1])


def _shows(call: HttpCall, row: ChartRow) -> bool:
    """The line is everybody's: whose token is for some workflows only does not see it."""
    if row.workflow == EVERYTHING:
        return not call.actor.workflows
    return call.actor.serves(row.workflow)


def _by_outcome(call: HttpCall, rows: Iterable[ChartRow]) -> Iterator[ChartRow]:
    """Count ends by their outcome; the rows have them by the status in which jobs rest."""
    for row in rows:
        definition = call.door.facade.definitions.current(row.workflow)
        ended: dict[str, int] = {}
        for status, jobs in row.counted.ended.items():
            state = definition.states.get(status) if definition else None
            outcome = (state.ends if state else "") or "ended"
            ended[outcome] = ended.get(outcome, 0) + jobs
        yield replace(row, counted=replace(row.counted, ended=ended))


def _view(name: Span, begins_at: int, rows: Iterable[ChartRow]) -> ChartsView:
    about = SPANS[name]
    found = series(rows, about, begins_at)
    line = found[0].buckets
    return ChartsView(
        span=name,
        begins_at=text_of(begins_at),
        step_s=about.step_s,
        charts=[_chart(one) for one in found],
        in_line=[bucket.in_line for bucket in line],
        waits_ms=[bucket.waits_ms for bucket in line],
    )


def _chart(one: Series) -> WorkflowChart:
    return WorkflowChart(
        workflow=None if one.workflow == EVERYTHING else one.workflow,
        made=[bucket.made for bucket in one.buckets],
        ended={
            outcome: [bucket.ended.get(outcome, 0) for bucket in one.buckets]
            for outcome in sorted(one.whole.ended)
        },
        p50_ms=[percentile_ms(bucket.took, MEDIAN) for bucket in one.buckets],
        p99_ms=[percentile_ms(bucket.took, NEARLY_ALL) for bucket in one.buckets],
        whole=_totals(one.whole),
    )


def _totals(whole: Counted) -> ChartTotals:
    return ChartTotals(
        made=whole.made,
        ended=dict(sorted(whole.ended.items())),
        p50_ms=percentile_ms(whole.took, MEDIAN),
        p99_ms=percentile_ms(whole.took, NEARLY_ALL),
    )
