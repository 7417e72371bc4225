"""Health: does the process answer, can it do its work, is its file whole."""

from jobrunner.http.frame.endpoint import ADMINS, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import NoFields
from jobrunner.http.frame.views import reply


class Checked(View, frozen=True, kw_only=True):
    ok: bool
    faults: list[str]


class Alive(View, frozen=True, kw_only=True):
    status: str
    version: str


async def check_db(call: HttpCall) -> HttpReply:
    faults = await call.door.check_db()
    return reply(Checked(ok=not faults, faults=faults))


async def alive(call: HttpCall) -> HttpReply:
    return reply(Alive(status="ok", version=call.door.version))


async def ready(call: HttpCall) -> HttpReply:
    checks = dict(await call.door.health())
    fine = not any(checks.values())
    return reply(Readiness(ready=fine, checks=checks), 200 if fine else 503)


class Readiness(View, frozen=True, kw_only=True):
    """``checks`` says by name what is wrong; an empty text is a check that passed."""

    ready: bool
    checks: dict[str, str]


ENDPOINTS = (
    Endpoint(
        "POST",
        "/admin/db/check",
        "checkDatabase",
        check_db,
        "Look for faults in the stored file",
        {200: Checked},
        roles=ADMINS,
        body=NoFields,
        empty=True,
    ),
    Endpoint(
        "GET",
        "/healthz",
        "isAlive",
        alive,
        "Tell whether the process answers",
        {200: Alive},
        roles=None,
    ),
    Endpoint(
        "GET",
        "/readyz",
        "isReady",
        ready,
        "Tell whether the service can do its work",
        {200: Readiness, 503: Readiness},
        roles=None,
    ),
)
