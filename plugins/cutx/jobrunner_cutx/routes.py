"""The three doors that existing clients know, and what is said there.

Clients of two generations write ``product_id`` and ``productId``. Both spellings are known here,
and only here: behind the door there is one. Saying both is fine as long as they agree.

The bodies below check shapes; what the values may be is the params structs' to say, so that an
order is judged alike through every door.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Protocol, get_args

from msgspec import UNSET, Meta, Struct, UnsetType, field

from jobrunner import Refused, Snapshot
from jobrunner_cutx.params import Format, Platform, Product, Ratio, Style, Tone

Text = str | UnsetType | None

TWINS = {
    "productId": "product_id",
    "projectId": "project_id",
    "idempotencyKey": "idempotency_key",
    "customInstructions": "custom_instructions",
    "aspectRatio": "aspect_ratio",
}


def _one_of(choices: object) -> Meta:
    return Meta(extra_json_schema={"examples": list(get_args(choices))})


class OrderBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every order says: ``product_id`` always, in one of its spellings."""

    product_id: Text = UNSET
    product_id_twin: Text = field(default=UNSET, name="productId")
    project_id: Text = UNSET
    project_id_twin: Text = field(default=UNSET, name="projectId")
    product: Product | UnsetType | None = UNSET
    idempotency_key: Text = UNSET
    idempotency_key_twin: Text = field(default=UNSET, name="idempotencyKey")


class CopyBody(OrderBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    platform: Annotated[Text, _one_of(Platform)] = UNSET
    format: Annotated[Text, _one_of(Format)] = UNSET
    tone: Annotated[Text, _one_of(Tone)] = UNSET
    custom_instructions: Text = UNSET
    custom_instructions_twin: Text = field(default=UNSET, name="customInstructions")


class StaticAdBody(OrderBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    style: Annotated[Text, _one_of(Style)] = UNSET
    aspect_ratio: Annotated[Text, _one_of(Ratio)] = UNSET
    aspect_ratio_twin: Annotated[Text, _one_of(Ratio)] = field(default=UNSET, name="aspectRatio")
    prompt: Text = UNSET


class VideoBody(OrderBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    script: Text = UNSET
    prompt: Text = UNSET
    aspect_ratio: Annotated[Text, _one_of(Ratio)] = UNSET
    aspect_ratio_twin: Annotated[Text, _one_of(Ratio)] = field(default=UNSET, name="aspectRatio")


BODIES: dict[str, type[Struct]] = {
    "copy_order": CopyBody,
    "static_ad_order": StaticAdBody,
    "video_order": VideoBody,
}


class Said(Protocol):
    """What the service has to say beside the job."""

    replayed: bool
    fields: dict[str, Any]


class Purse(Protocol):
    balance: int


def read_order(body: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The order's params in their one spelling, and the client's key if it gave one.

    Raises: Refused when two spellings of a field disagree.
    """
    given = {name: value for name, value in body.items() if value is not None}
    if faults := list(_disagreements(given)):
        detail = "; ".join(f"{fault['path']} {fault['message']}" for fault in faults)
        raise Refused("VALIDATION_ERROR", detail, errors=faults)
    params = {TWINS.get(name, name): value for name, value in given.items()}
    key = params.pop("idempotency_key", None)
    return params, key


def ordered(job: Snapshot, said: Said, purse: Purse) -> dict[str, Any]:
    """Where an order stands, and what it has cost so far (nothing, once refunded)."""
    return {
        **said.fields,
        "job_id": job.id,
        "status": job.status,
        "credits_used": job.cost if job.credits == "charged" else 0,
        "credits_remaining": purse.balance,
        "replayed": said.replayed,
    }


def delivered(job: Snapshot, said: Said, purse: Purse) -> dict[str, Any]:
    """As ``ordered``, with the variants of a text that is done."""
    return {**ordered(job, said, purse), "variants": _variants(job)}


def _disagreements(given: dict[str, Any]) -> Iterator[dict[str, str]]:
    for twin, name in TWINS.items():
        if twin in given and name in given and given[twin] != given[name]:
            message = f"is {given[name]!r:.60} and {twin} is {given[twin]!r:.60}: send one of them"
            yield {"path": f"$.{name}", "message": message}


def _variants(job: Snapshot) -> list[Any]:
    found = job.result.get("variants") if isinstance(job.result, dict) else None
    return found if job.status == "completed" and isinstance(found, list) else []
