"""The parameters of a submission. The JSON Schema that the service publishes is made of this."""

from typing import Annotated

from msgspec import Meta, Struct

Option = str | int | float | bool
OWN = ["account", "height", "model", "n", "num_outputs", "prompt", "repeat_key", "seed", "size"]
OWN += ["version", "webhook", "width"]


class ImageParams(Struct, frozen=True, forbid_unknown_fields=True):
    """One picture."""

    prompt: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4000,
            pattern=r"\S",
            description="What the picture shows. Checked against the operator's blocked words.",
            examples=["a lighthouse at dusk, oil on canvas"],
        ),
    ]
    size: Annotated[
        str,
        Meta(
            pattern=r"^[1-9][0-9]{1,3}x[1-9][0-9]{1,3}$(?!\n)",
            description="Width and height in pixels, 10 to 9999 each.",
        ),
    ] = "1024x1024"
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=4294967295)] | None,
        Meta(description="Makes the picture repeatable where the provider can; null: any."),
    ] = None
    model: Annotated[
        str,
        Meta(
            max_length=128,
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$(?!\n)",
            description="A model the bound stage knows.",
        ),
    ] = "default"
    options: Annotated[
        dict[Annotated[str, Meta(min_length=1, max_length=64)], Option],
        Meta(
            max_length=32,
            description="Passed on to the provider as they are. What has a parameter of its own "
            "here, or would ask for more than one picture, is not taken.",
            extra_json_schema={"propertyNames": {"not": {"enum": OWN}}},
        ),
    ] = {}

    def __post_init__(self) -> None:
        if taken := sorted(set(OWN) & self.options.keys()):
            raise ValueError(f"options may not say {', '.join(taken)}; they are not the user's")


class Note(Struct, frozen=True, forbid_unknown_fields=True):
    """The words of a reviewer about a job."""

    note: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=2000,
            pattern=r"\S",
            description="Kept in the audit trail, under the reviewer's name.",
        ),
    ]
