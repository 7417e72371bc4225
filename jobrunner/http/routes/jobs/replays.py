"""Decisions about a job, as they are on record: with what each was decided."""

from typing import Any

import msgspec

from jobrunner.http.frame.endpoint import OWNERS, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import RowsQuery, cursor_of, key_of, visible_job
from jobrunner.http.frame.views import reply

BEATS = 1 << 20


class DecisionList(View, frozen=True, kw_only=True):
    """``decisions`` are records as `job replay` reads them; ``declarations`` are those by which
    they were made, by digest, on the first page alone."""

    workflow: str
    decisions: list[dict[str, Any]]
    declarations: dict[str, Any]
    next_cursor: str | None


@Endpoint("GET", "/jobs/{id}/decisions", {200: DecisionList}, OWNERS, query=RowsQuery)
async def get_decisions(call: HttpCall) -> HttpReply:
    """List the decisions about a job that are on record, with what each was decided with."""
    job = await visible_job(call)
    query: RowsQuery = call.query
    place = divmod(key_of(query.cursor) or 0, BEATS)
    found = await call.door.reader.decisions(job.id, query.limit, place)
    following = found[-1].version * BEATS + found[-1].beat if len(found) == query.limit else None
    made_by = () if query.cursor else await call.door.reader.declarations_of(job.id)
    return reply(
        DecisionList(
            workflow=job.workflow,
            decisions=[msgspec.json.decode(one.data) for one in found],
            declarations={digest: msgspec.json.decode(data) for _, digest, data in made_by},
            next_cursor=cursor_of(following),
        )
    )
