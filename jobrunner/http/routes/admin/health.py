"""Health: does the process answer, can it do its work, is its file whole."""

from jobrunner.http.frame.endpoint import ADMINS, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import NoFields
from jobrunner.http.frame.views import reply
from jobrunner.stages.process.code import stale_stages


class Checked(View, frozen=True, kw_only=True):
    ok: bool
    faults: list[str]


class Alive(View, frozen=True, kw_only=True):
    status: str
    version: str


class Readiness(View, frozen=True, kw_only=True):
    """``checks`` says by name what is wrong; an empty text is a check that passed. ``warnings`` are
    for an operator to look at; the service can do its work."""

    ready: bool
    checks: dict[str, str]
    warnings: dict[str, str]


@Endpoint("POST", "/admin/db/check", {200: Checked}, ADMINS, body=NoFields, empty=True)
async def check_database(call: HttpCall) -> HttpReply:
    """Look for faults in the stored file."""
    faults = await call.door.check_db()
    return reply(Checked(ok=not faults, faults=faults))


@Endpoint("GET", "/healthz", {200: Alive}, roles=None)
async def is_alive(call: HttpCall) -> HttpReply:
    """Tell whether the process answers."""
    return reply(Alive(status="ok", version=call.door.version))


@Endpoint("GET", "/readyz", {200: Readiness, 503: Readiness}, roles=None)
async def is_ready(call: HttpCall) -> HttpReply:
    """Tell whether the service can do its work."""
    checks = dict(await call.door.health())
    fine = not any(checks.values())
    return reply(
        Readiness(ready=fine, checks=checks, warnings=call.door.warnings() | _stale()),
        200 if fine else 503,
    )


def _stale() -> dict[str, str]:
    names = ", ".join(sorted(stale_stages()))
    text = f"the code of {names} has changed since the start; restart the service"
    return {"stages": text} if names else {}
