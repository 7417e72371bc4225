"""Each route of the service has a command that asks for it, or a reason why none does."""

import cyclopts
import pytest

from jobrunner import cli
from jobrunner.http.routes.table import CORE

VERBS = {
    "POST /jobs": "job submit",
    "GET /jobs": "job list",
    "GET /jobs/{id}": "job show",
    "DELETE /jobs/{id}": "job delete",
    "GET /jobs/{id}/history": "job history",
    "GET /jobs/{id}/attempts": "job attempts",
    "GET /jobs/{id}/explain": "job explain",
    "GET /jobs/{id}/events": "job events",
    "GET /events": "job events",
    "GET /jobs/{id}/assets": "job assets",
    "GET /jobs/{id}/artifacts/{name}": "artifact get",
    "PUT /jobs/{id}/artifacts/{name}": "artifact put",
    "POST /jobs/{id}/pause": "job pause",
    "POST /jobs/{id}/resume": "job resume",
    "POST /jobs/{id}/rerun": "job rerun",
    "POST /jobs/{id}/transitions": "job move",
    "POST /jobs/{id}/{command}": "job tell",
    "POST /jobs/{id}/uploads": "job upload",
    "POST /admin/jobs/{id}/stop": "job stop",
    "POST /admin/jobs/{id}/release": "job release",
    "GET /jobs/{id}/deliveries": "job deliveries",
    "POST /jobs/{id}/deliveries/{delivery}/redeliver": "delivery redeliver",
    "GET /admin/deliveries": "delivery list",
    "POST /admin/deliveries/{id}/redeliver": "delivery redeliver",
    "GET /admin/endpoints": "delivery endpoints",
    "POST /admin/endpoints/{id}/enable": "delivery enable",
    "GET /notifications/secret": "notify own",
    "POST /admin/bulk": "job bulk",
    "GET /admin/bulk/{id}": "bulk show",
    "DELETE /admin/bulk/{id}": "bulk stop",
    "GET /admin/pauses": "stage list",
    "POST /admin/workflows/{name}/pause": "workflow pause",
    "POST /admin/workflows/{name}/resume": "workflow resume",
    "POST /admin/stages/{name}/pause": "stage pause",
    "POST /admin/stages/{name}/resume": "stage resume",
    "GET /workflows": "stage list",
    "GET /workflows/{name}": "job tell",
    "GET /assets": "asset list",
    "GET /assets/{id}": "asset show",
    "DELETE /assets/{id}": "asset delete",
    "GET /assets/{id}/content": "asset get",
    "POST /uploads": "asset put",
    "GET /uploads/{id}": "asset put",
    "PATCH /uploads/{id}": "asset put",
    "GET /credits": "credit balance",
    "GET /credits/history": "credit history",
    "POST /admin/credits/{user}/grant": "credit grant",
    "GET /admin/audit": "audit list",
    "GET /admin/dead-letters": "dead-letter list",
    "GET /admin/tokens": "token list",
    "POST /admin/tokens": "token create",
    "POST /admin/tokens/{id}/rotate": "token rotate",
    "DELETE /admin/tokens/{id}": "token revoke",
    "GET /admin/db": "db info",
    "POST /admin/db/prune": "db prune",
    "POST /admin/db/compact": "db compact",
    "POST /admin/db/check": "db check",
    "POST /admin/db/backup": "db backup",
    "GET /admin/db/backup": "db backup",
    "GET /healthz": "doctor",
    "GET /readyz": "doctor",
    "GET /openapi.json": "openapi",
    "GET /answers": "answer list",
    "POST /jobs/{id}/answers/{name}": "answer give",
    "POST /batches": "batch submit",
    "GET /batches": "batch list",
    "GET /batches/{id}": "batch show",
    "POST /batches/{id}/jobs": "batch submit",
    "POST /batches/{id}/close": "batch close",
    "POST /batches/{id}/cancel": "batch cancel",
    "POST /batches/{id}/rerun": "batch rerun",
    "DELETE /batches/{id}": "batch delete",
    "GET /admin/limits": "limit list",
    "PUT /admin/limits/{key}": "limit set",
    "DELETE /admin/limits/{key}": "limit reset",
    "GET /admin/schedules": "schedule list",
    "PUT /admin/schedules/{name}": "schedule add",
    "GET /admin/schedules/{name}": "schedule show",
    "DELETE /admin/schedules/{name}": "schedule remove",
    "GET /admin/schedules/{name}/firings": "schedule firings",
    "POST /admin/schedules/{name}/pause": "schedule pause",
    "POST /admin/schedules/{name}/resume": "schedule resume",
    "POST /admin/schedules/{name}/trigger": "schedule trigger",
    "POST /admin/schedules/{name}/backfill": "schedule backfill",
    "POST /admin/upgrades": "workflow migrate",
    "GET /admin/upgrades/{id}": "workflow migrate",
    "GET /jobs/{id}/decisions": "job export",
    "POST /internal/jobs/{id}/outcome": "work",
    "POST /internal/jobs/{id}/checkpoint": "work",
    "POST /internal/jobs/{id}/kept": "work",
}
WORKERS = "for programs that work on jobs, not for people"
IN_PIECES = "commands send files in pieces, so that a break costs little"
PAGES = "a page for a browser"
WITHOUT = {
    "POST /admin/schedules": "schedule add puts one at its name",
    "GET /admin/upgrades": "workflow migrate tells of its own; others are for programs",
    "DELETE /admin/upgrades/{id}": "for programs; a migration that is cut off goes on by itself",
    "GET /callbacks/{token}": "for whoever was sent the address, without a token",
    "POST /callbacks/{token}": "for whoever was sent the address, without a token",
    "GET /": PAGES,
    "GET /page/{build}/{part}": PAGES,
    "POST /jobs/{id}/decisions/replay": "job replay makes them again where it is typed",
    "GET /jobs/{id}/workflow": PAGES,
    "GET /panels/{name}/{build}/{part}": PAGES,
    "GET /overview": PAGES,
    "GET /overview/events": PAGES,
    "GET /overview/charts": PAGES,
    "GET /session": PAGES,
    "POST /session": PAGES,
    "DELETE /session": PAGES,
    "POST /jobs/": "the same as without the slash",
    "GET /jobs/": "the same as without the slash",
    "PUT /jobs/{id}/upload": IN_PIECES,
    "POST /assets": IN_PIECES,
    "OPTIONS /uploads": "commands know what the service of their release can do",
    "DELETE /uploads/{id}": "what was broken off goes by itself",
    "POST /jobs/{id}/assets": WORKERS,
    "POST /jobs/{id}/claim": WORKERS,
    "POST /internal/claims": WORKERS,
    "POST /internal/jobs/{id}/status": WORKERS,
    "POST /jobs/{id}/progress": WORKERS,
    "POST /webhooks/{source}": "for providers, who sign it",
    "GET /metrics": "for monitors, in their own format",
    "GET /docs": PAGES,
    "GET /docs/{part}": PAGES,
}
KNOWN = {f"{endpoint.method} {endpoint.path}" for endpoint in CORE}


def test_every_route_has_a_verb_or_a_reason() -> None:
    assert VERBS.keys() | WITHOUT.keys() == KNOWN
    assert not VERBS.keys() & WITHOUT.keys()
    assert all(len(reason) > 10 for reason in WITHOUT.values())


@pytest.mark.parametrize("verb", sorted(set(VERBS.values())))
def test_every_verb_is_a_command(verb: str) -> None:
    command: cyclopts.App = cli.app
    for word in verb.split():
        command = command[word]
    assert command.default_command is not None
