"""Webhooks coming in: verified before anything else is looked at, and answered when their effect is
on disk.

Every verified one is answered with 200, whatever became of it: its source would only send it again
if it were not. What is our fault (no room, a plugin that is not loaded) is a 5xx, so that it does.
"""

import re

import msgspec
from msgspec import UNSET, Raw, UnsetType

from jobrunner.core.messages import Told
from jobrunner.errors import Refused
from jobrunner.http.frame.bodies import check_shape
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.views import reply
from jobrunner.stages.outcomes import said
from jobrunner.stages.sources import Heard, Source

KEY = re.compile(r"[^\x00-\x1f\x7f]{1,255}")
NOTHING_TO_SAY = "nothing_to_say"
NOT_UNDERSTOOD = "not_understood"


class WebhookHeard(View, frozen=True, kw_only=True):
    """The effect of a webhook. ``reason``, when it was not applied: ``replayed`` (its id came
    before), ``kept`` (nobody awaits it yet), ``over`` (who awaited it does so no more), ``gone``
    (the job was deleted), ``nothing_to_say``, ``not_understood``."""

    applied: bool
    reason: str | UnsetType = UNSET


@Endpoint(
    "POST",
    "/webhooks/{source}",
    {200: WebhookHeard},
    roles=None,
    body=Raw,
    plain=True,
    codes=("UNAUTHORIZED", "WORKFLOW_UNAVAILABLE"),
)
async def hear_webhook(call: HttpCall) -> HttpReply:
    """Receive a webhook of a provider, signed by Standard Webhooks."""
    sources = call.door.webhooks
    source = sources.named(call.path["source"])
    webhook_id = _verified(call, source)
    heard = _read(call, source, webhook_id)
    if isinstance(heard, str):
        call.door.meter.heard(source.name, heard)
        return reply(WebhookHeard(applied=False, reason=heard))
    message = Told(source.name, webhook_id, heard.key, heard.value)
    became = await call.door.facade.hear(message)
    call.door.meter.heard(source.name, became.reason or "applied")
    about = {"source": source.name, "webhook_id": webhook_id}
    if became.reason == "replayed":
        sources.say("callback.replayed", "info", **about, correlation_id=call.correlation_id)
    else:
        call.door.log(
            "callback.heard", **about, job_id=became.job_id or None, applied=became.applied,
            reason=became.reason or None, correlation_id=call.correlation_id,
        )  # fmt: skip
    return reply(WebhookHeard(applied=became.applied, reason=became.reason or UNSET))


def _verified(call: HttpCall, source: Source) -> str:
    """Verify a webhook and return its id. What is not signed is charged to the address that it came
    from, so what is signed is still heard from there.

    Raises: Refused UNAUTHORIZED, RATE_LIMITED."""
    try:
        return call.door.webhooks.verified(source, call.headers, call.raw)
    except Refused:
        call.door.meter.heard(source.name, "refused")
        call.door.limits.take_anonymous(call.address)
        raise


def _read(call: HttpCall, source: Source, webhook_id: str) -> Heard | str:
    """Read it, or say why it says nothing. Its reader is a stranger's code, and what it reads has
    been written by another stranger."""
    try:
        heard = source.read(call.raw, call.headers)
        if heard is None:
            return NOTHING_TO_SAY
        return _storable(heard)
    except Exception as fault:  # noqa: BLE001 - a faulty reader costs this webhook its effect
        call.door.webhooks.say(
            "webhook.not_understood", "warning", source=source.name, webhook_id=webhook_id,
            correlation_id=call.correlation_id,
            fault=f"{type(fault).__name__}: {said(fault)[:200]}",
        )  # fmt: skip
        return NOT_UNDERSTOOD


def _storable(heard: object) -> Heard:
    """Raises: anything, when it is not something that can be stored and shown."""
    if not isinstance(heard, Heard):
        raise TypeError(f"a reader returns Heard or None, not {type(heard).__name__}")
    if not KEY.fullmatch(heard.key):
        raise ValueError("a key is text of 1 to 255 characters")
    data = msgspec.json.encode([heard.key, heard.value])
    try:
        check_shape(data)
    except Refused as refused:
        raise ValueError(refused.detail) from None
    key, value = msgspec.json.decode(data)
    return Heard(key, value)
