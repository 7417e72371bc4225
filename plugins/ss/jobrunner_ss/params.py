"""The parameters of a submission, and the fields of the commands. The published JSON Schemas are
made of these."""

from typing import Annotated, Any

from msgspec import Meta, Struct

Answers = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=128)], Any],
    Meta(max_length=200, description="Answers to the draft's questions, by question id."),
]


class Inputs(Struct, frozen=True, forbid_unknown_fields=True):
    """The data that the work is done on."""

    fingerprint: Annotated[
        Annotated[str, Meta(max_length=256)] | None,
        Meta(
            description="Identifies the input's content, for instance its SHA-256. Part of the key"
            " that makes two submissions one."
        ),
    ] = None


class SsParams(Struct, frozen=True, forbid_unknown_fields=True):
    """One piece of work. Equal fingerprint, requirement and plan revision are the same work."""

    requirement: Annotated[
        Annotated[str, Meta(max_length=20_000)] | None,
        Meta(
            description="What is wanted, in words. White space does not tell two apart.",
            examples=["Sum the sales by region and month"],
        ),
    ] = None
    inputs: Inputs | None = None
    plan_revision: Annotated[
        Annotated[str, Meta(max_length=128)] | None,
        Meta(description="Raise it to have the same work done once more."),
    ] = None
    answers: Answers | None = None


class Draft(Struct, frozen=True, forbid_unknown_fields=True):
    """The draft itself; without one, the drafting stage is started."""

    draft: Annotated[
        Annotated[str, Meta(min_length=1)] | dict[str, Any] | None,
        Meta(
            description="Text, or an object. An object may list `questions: [{id, required}]`, or"
            " `required: [id]`, which confirming then insists on."
        ),
    ] = None


class Freeze(Struct, frozen=True, forbid_unknown_fields=True):
    """The input that a plan is frozen with, beside what is known."""

    answers: Answers | None = None


class Confirm(Struct, frozen=True, forbid_unknown_fields=True):
    """Yes or no to the draft."""

    confirmed: Annotated[bool, Meta(description="false: nothing happens, and nothing is lost.")]
    answers: Answers | None = None
