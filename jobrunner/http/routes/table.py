"""The table of routes: the endpoints of each module, in the order in which they stand there.

The order matters only where two paths match the same address: the first one wins, so ``commands``,
which takes whatever follows a job's id, comes after everything else that follows one.
"""

from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from jobrunner.core.declaration.workflow import Definition
from jobrunner.http.frame import openapi
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpDoor, HttpReply
from jobrunner.http.frame.views import encode
from jobrunner.http.routes.admin import (
    audit,
    backups,
    credits,  # noqa: A004 - the feature's word
    file_moves,
    firings,
    health,
    limits,
    metrics,
    notifications,
    retention,
    schedules,
    tokens,
    upgrades,
    upkeep,
    workflows,
)
from jobrunner.http.routes.files import assets, content, resumable, uploads
from jobrunner.http.routes.jobs import (
    answers,
    artifacts,
    attempts,
    batches,
    bulk,
    commands,
    explain,
    jobs,
    pauses,
    replays,
    reruns,
    streams,
    submissions,
)
from jobrunner.http.routes.pages import charts, dashboard, docs, overview, panels, sessions
from jobrunner.http.routes.plugins import endpoints_of
from jobrunner.http.routes.workers import claims, remote, reports, status_moves, webhooks

MODULES = (
    *(submissions, jobs, attempts, explain, streams, artifacts, answers, pauses, reruns, replays),
    batches,
    *(assets, content, uploads, resumable),
    *(claims, remote, status_moves, reports, webhooks, commands, bulk),
    *(workflows, credits, audit, tokens, limits, notifications, retention, upkeep, backups),
    *(upgrades, schedules, firings, file_moves),
    *(health, metrics, sessions, overview, charts, docs, dashboard, panels),
)


def table_of(door: HttpDoor) -> tuple[Endpoint, ...]:
    """The service's own endpoints, then what the loaded workflows add without shadowing them."""
    loaded = _loaded(door)
    edits = [editable.max_size for one in loaded for editable in one.workflow.editables]
    core = tuple(_for_edits(endpoint, max(edits, default=0)) for endpoint in CORE)
    added = endpoints_of(loaded)
    return core + tuple(endpoint for endpoint in added if endpoint.door not in TAKEN)


@Endpoint("GET", "/openapi.json", {200: dict[str, Any]}, roles=None)
async def get_open_api(call: HttpCall) -> HttpReply:
    """Show the OpenAPI document."""
    return HttpReply(200, _document(call.door))


def _for_edits(endpoint: Endpoint, most: int) -> Endpoint:
    """Let an edit be as large as any workflow takes; the job's own limit comes later."""
    return replace(endpoint, max_body=most) if endpoint.name == "editArtifact" else endpoint


@lru_cache(maxsize=4)
def _document(door: HttpDoor) -> bytes:
    public_url = door.settings.public_url
    return encode(openapi.document(table_of(door), _loaded(door), door.version, public_url))


def _loaded(door: HttpDoor) -> list[Definition]:
    definitions = door.facade.definitions
    found = (definitions.current(name) for name in sorted(definitions.names()))
    return [definition for definition in found if definition is not None]


CORE: tuple[Endpoint, ...] = (
    *(one for module in MODULES for one in vars(module).values() if isinstance(one, Endpoint)),
    get_open_api,
)
TAKEN = frozenset(endpoint.door for endpoint in CORE)

__all__ = ["CORE", "TAKEN", "get_open_api", "table_of"]
