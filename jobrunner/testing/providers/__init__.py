"""Providers to test against: real HTTP on loopback, with everything that goes wrong there, on cue.

``OpenAILike`` draws, chats and transcribes; ``ReplicateLike`` takes predictions, serves their files
and calls back; ``ScriptedProvider`` has the routes that you give it. All are async context
managers; ``openai_like`` and ``replicate_like`` are fixtures, too. What is to go wrong is put into
a script, call by call:

    async with OpenAILike() as provider:
        provider.script("images", Status(500), Hang(done=True), None)
        ...                                    # your stage, with {provider.url}/v1 in its settings
        provider.never_twice("images")

A provider remembers what it did (an idempotency key is answered as it was the first time) in memory
only: after ``restart()``, on the same port, it has forgotten everything. What it was asked stays in
``calls``, for that is the test's memory and not its own.

Deliberately absent: any address but loopback, for itself and for whom it calls.
"""

from jobrunner.testing.providers.made import Made, picture
from jobrunner.testing.providers.mishaps import (
    Cut,
    Endless,
    Fault,
    Hang,
    Nonsense,
    Page,
    Redirected,
    Refusal,
    Slow,
    Status,
    busy,
)
from jobrunner.testing.providers.openai_like import OpenAILike
from jobrunner.testing.providers.provider import Provider
from jobrunner.testing.providers.record import Calls
from jobrunner.testing.providers.record import RecordedCall as Call
from jobrunner.testing.providers.replicate_like import Plan, ReplicateLike
from jobrunner.testing.providers.scripted_provider import ScriptedProvider
from jobrunner.testing.providers.webhooks import Delivery, signed
from jobrunner.testing.providers.webhooks import SentWebhook as Sent

__all__ = [
    "Call",
    "Calls",
    "Cut",
    "Delivery",
    "Endless",
    "Fault",
    "Hang",
    "Made",
    "Nonsense",
    "OpenAILike",
    "Page",
    "Plan",
    "Provider",
    "Redirected",
    "Refusal",
    "ReplicateLike",
    "ScriptedProvider",
    "Sent",
    "Slow",
    "Status",
    "busy",
    "picture",
    "signed",
]
