"""Limits that an operator looks at, changes while the service runs, and puts back."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from jobrunner.http.frame.endpoint import ADMINS, Body, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import Prose
from jobrunner.http.frame.views import reply, view_of

LimitValue = Annotated[int | str | None, Meta(description="a number, a rate, or null for no limit")]


class LimitOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: LimitValue
    reason: Prose | None = None


class LimitView(View, frozen=True, kw_only=True):
    """A limit as it stands, and where that comes from."""

    key: str
    value: LimitValue
    configured: LimitValue
    origin: str
    by: str
    at: str | UnsetType | None = UNSET
    reason: str | UnsetType | None = UNSET
    idle: bool


class LimitList(View, frozen=True, kw_only=True):
    limits: list[LimitView]


@Endpoint("GET", "/admin/limits", {200: LimitList}, ADMINS)
async def list_limits(call: HttpCall) -> HttpReply:
    """List the limits that can be changed, as they stand, and where each comes from."""
    return reply(
        LimitList(limits=[view_of(LimitView, one) for one in call.door.facade.limits.now()])
    )


@Endpoint("PUT", "/admin/limits/{key}", {200: LimitView}, ADMINS, LimitOrder)
async def set_limit(call: HttpCall) -> HttpReply:
    """Change a limit from now on, over restarts too."""
    body: LimitOrder = call.body
    limits = call.door.facade.limits
    now = await limits.set(call.path["key"], body.value, call.actor, body.reason)
    return reply(view_of(LimitView, now))


@Endpoint("DELETE", "/admin/limits/{key}", {204: None}, ADMINS)
async def reset_limit(call: HttpCall) -> HttpReply:
    """Let the settings say again what a limit is."""
    await call.door.facade.limits.reset(call.path["key"], call.actor, None)
    return HttpReply(204)
