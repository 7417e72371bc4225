"""Providers that speak as Replicate does: a prediction is ordered, and done some time later. Who
ordered it asks how it goes, or is told by a webhook."""

from typing import Any
from urllib.parse import quote

from msgspec import Struct

from jobrunner.errors import PermanentFailure, Rejected
from jobrunner.providers.openai_like import SAFE_BLOCK, Account
from jobrunner.providers.responses import (
    BAD_ANSWER,
    ProviderAnswer,
    ProviderRequest,
    bearer,
    joined,
    read,
)

OVER = {"succeeded", "failed", "canceled", "aborted"}
UNSAFE = ("nsfw", "safety", "sensitive content", "content policy", "moderation")


class Prediction(Struct, frozen=True):
    """The state of an order. ``output`` is an address, a list of them, or whatever the model
    gives."""

    id: str
    status: str
    output: Any = None
    error: Any = None

    @property
    def over(self) -> bool:
        return self.status in OVER


def order(
    account: Account, given: dict[str, Any], *, model: str = "", version: str = "",
    webhook: str = "", repeat_key: str = "",
) -> ProviderRequest:  # fmt: skip
    """``model`` is ``owner/name``; ``version`` is asked for instead where it is given."""
    body: dict[str, Any] = {"input": given}
    if version:
        body["version"] = version
    if webhook:
        body |= {"webhook": webhook, "webhook_events_filter": ["completed"]}
    named = model and not version
    path = f"models/{quote(model, safe='/')}/predictions" if named else "predictions"
    return ProviderRequest(
        "POST", joined(account.base_url, path), body, headers=bearer(account.key, repeat_key)
    )


def look(account: Account, prediction_id: str) -> ProviderRequest:
    url = joined(account.base_url, f"predictions/{quote(prediction_id, safe='')}")
    return ProviderRequest("GET", url, headers=bearer(account.key))


def cancel(account: Account, prediction_id: str) -> ProviderRequest:
    url = joined(account.base_url, f"predictions/{quote(prediction_id, safe='')}/cancel")
    return ProviderRequest("POST", url, headers=bearer(account.key))


def prediction_in(answer: ProviderAnswer) -> Prediction:
    """Raises: RetryableFailure, PermanentFailure."""
    found = read(answer, Prediction, "the provider")
    if not found.id:
        raise PermanentFailure(BAD_ANSWER, "the provider answered without the id of a prediction")
    return found


def addresses_in(prediction: Prediction) -> list[str]:
    """Read where the files of a prediction are.

    Raises: Rejected (SAFE_BLOCK), PermanentFailure: what has failed there has been paid for."""
    if prediction.status != "succeeded":
        raise _failed(prediction)
    output = prediction.output
    if isinstance(output, dict):
        output = list(output.values())
    listed = output if isinstance(output, list) else [output]
    found = [one for one in listed if isinstance(one, str) and one.startswith(("http:", "https:"))]
    if not found:
        raise PermanentFailure(BAD_ANSWER, "the prediction succeeded without a file")
    return found


def _failed(prediction: Prediction) -> Exception:
    text = str(prediction.error or f"the prediction is {prediction.status}")[:500]
    if any(word in text.lower() for word in UNSAFE):
        return Rejected(SAFE_BLOCK, f"the provider refused the content: {text}")
    return PermanentFailure("PREDICTION_FAILED", text)
