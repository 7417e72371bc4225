"""The three doors that existing clients know, and what is said there.

Clients of two generations write ``product_id`` and ``productId``. Both spellings are known here,
and only here: behind the door there is one. Saying both is fine as long as they agree.

The bodies below check shapes; what the values may be is the params structs' to say, so that an
order is judged alike through every door.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Protocol, get_args

from msgspec import UNSET, Meta, Struct, UnsetType, field

from jobrunner import Refused, Snapshot
from jobrunner_cutx.params import Format, Platform, Product, Ratio, Style, Tone

Text = str | UnsetType | None
Rules = tuple[dict[str, Any], ...]

TWINS = {
    "productId": "product_id",
    "projectId": "project_id",
    "idempotencyKey": "idempotency_key",
    "customInstructions": "custom_instructions",
    "aspectRatio": "aspect_ratio",
}


def _one_of(choices: object) -> Meta:
    return Meta(extra_json_schema={"enum": [*get_args(choices), None]})


def _long(least: int, most: int) -> Meta:
    return Meta(extra_json_schema={"minLength": least, "maxLength": most})


def _says(*names: str) -> dict[str, Any]:
    """Of a schema: one of these is there, and not null."""
    said = {"not": {"type": "null"}}
    return {"anyOf": [{"required": [name], "properties": {name: said}} for name in names]}


def _once(*names: str) -> tuple[dict[str, Any], ...]:
    """Of a schema: of each pair of spellings one is enough."""
    pairs = [(twin, name) for twin, name in TWINS.items() if name in names]
    return tuple({"not": {"allOf": [_says(twin), _says(name)]}} for twin, name in pairs)


Named = Annotated[Text, _long(1, 128)]
Key = Annotated[Text, Meta(extra_json_schema={"pattern": "^[!-~]{1,255}$"})]
Instructions = Annotated[Text, _long(0, 500)]
Shape = Annotated[Text, _one_of(Ratio)]


class OrderBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The common part of every order: ``product_id`` always, in one of its spellings. ``rules`` are
    what the published schema says beyond the fields one by one."""

    rules: ClassVar[Rules] = (
        _says("product_id", "productId"),
        *_once("product_id", "project_id", "idempotency_key"),
    )
    product_id: Named = UNSET
    product_id_twin: Named = field(default=UNSET, name="productId")
    project_id: Named = UNSET
    project_id_twin: Named = field(default=UNSET, name="projectId")
    product: Product | UnsetType | None = UNSET
    idempotency_key: Key = UNSET
    idempotency_key_twin: Key = field(default=UNSET, name="idempotencyKey")


class CopyBody(OrderBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    rules: ClassVar[Rules] = (*OrderBody.rules, *_once("custom_instructions"))
    platform: Annotated[Text, _one_of(Platform)] = UNSET
    format: Annotated[Text, _one_of(Format)] = UNSET
    tone: Annotated[Text, _one_of(Tone)] = UNSET
    custom_instructions: Instructions = UNSET
    custom_instructions_twin: Instructions = field(default=UNSET, name="customInstructions")


class StaticAdBody(OrderBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    rules: ClassVar[Rules] = (*OrderBody.rules, *_once("aspect_ratio"))
    style: Annotated[Text, _one_of(Style)] = UNSET
    aspect_ratio: Shape = UNSET
    aspect_ratio_twin: Shape = field(default=UNSET, name="aspectRatio")
    prompt: Annotated[Text, _long(5, 1000)] = UNSET


class VideoBody(OrderBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    rules: ClassVar[Rules] = (*OrderBody.rules, *_once("aspect_ratio"))
    script: Annotated[Text, _long(1, 5000)] = UNSET
    prompt: Annotated[Text, _long(1, 1000)] = UNSET
    aspect_ratio: Shape = UNSET
    aspect_ratio_twin: Shape = field(default=UNSET, name="aspectRatio")


BODIES: dict[str, type[Struct]] = {
    "copy_order": CopyBody,
    "static_ad_order": StaticAdBody,
    "video_order": VideoBody,
}


class Said(Protocol):
    """The words of the service beside the job."""

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
