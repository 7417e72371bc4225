"""Brings webhooks to the jobs that await them, and forgets old ones.

Who awaits one is a fact that may change while it is looked at, so its place is looked for again
until a commit holds it: in the job, or in the table of those that are for nobody. The first look is
a guess of what is in memory: nearly always the job that is guessed awaits the webhook.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.actors.commits import Answer, ours
from jobrunner.actors.shared import World
from jobrunner.core.decision import Clash
from jobrunner.core.features.webhooks import KEPT_MS, REPLAYED, name_of, place
from jobrunner.core.messages import Told
from jobrunner.core.units import ForgetWebhooks
from jobrunner.errors import Refused

TRIES = 5
SWEEP_EVERY_S = 600.0
SWEEP_AGAIN_S = 1.0

Ask = Callable[[str, Told], Awaitable[Answer]]


class Hearing(Struct, frozen=True):
    """The fate of a webhook; ``reason`` says why it was not ``applied``."""

    applied: bool
    reason: str = ""
    job_id: str = ""


async def hear(world: World, ask: Ask, message: Told) -> Hearing:
    """Returns when what became of it is on the disk."""
    name = name_of(message.source, message.key)
    guessed = world.awaited.guess(name)
    if guessed and (heard := await _tell(ask, guessed, message)):
        return heard
    message = replace(message, value=world.surroundings.redaction.within(message.value))
    for _ in range(TRIES):
        now = world.clock.now()
        known = await world.reader.webhook(message.source, message.webhook_id, name, now - KEPT_MS)
        placed = place(message, known, now)
        if placed is None:
            return Hearing(False, REPLAYED)
        if isinstance(placed, str):
            heard = await _tell(ask, placed, message)
        else:
            outcome = ours(await world.commit(placed))
            late_for = (known.awaited.job_id if known.awaited else None) or ""
            reason = placed.webhook.reason
            heard = None if isinstance(outcome, Clash) else Hearing(False, reason, late_for)
        if heard is not None:
            return heard
    raise Refused("OVERLOADED", "too much happens around this webhook; send it again")


async def _tell(ask: Ask, job_id: str, message: Told) -> Hearing | None:
    """Tell a job its webhook. None when it is gone, or awaits the webhook no more: its place is
    another one now."""
    try:
        answer = await ask(job_id, message)
    except Refused as refused:
        if refused.code == "NOT_FOUND":
            return None
        raise
    if answer.fields.get("applied"):
        return Hearing(True, job_id=job_id)
    reason = answer.fields.get("reason", "")
    return Hearing(False, reason, job_id) if reason else None


async def forget_webhooks(world: World, keys_s: float) -> None:
    """Remove webhooks that nobody came for, and ids of deleted jobs, for as long as the service
    runs (``keys_s`` 0: never)."""
    while True:
        now = world.clock.now()
        before = now - int(keys_s * 1000) if keys_s else None
        old = await world.reader.old_webhooks(now - KEPT_MS, before)
        if old:
            ours(await world.commit(ForgetWebhooks(now - KEPT_MS, before)))
        await world.clock.sleep(SWEEP_AGAIN_S if old else SWEEP_EVERY_S)
