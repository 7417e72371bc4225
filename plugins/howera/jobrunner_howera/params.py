"""The fields of the commands. The published JSON Schemas are made of these."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

FailedStage = Literal["AUDIO_EXTRACTING", "TRANSCRIBING", "GENERATING", "REGENERATING", "EXPORTING"]
Format = Literal["PDF", "MD_ZIP"]
Version = Annotated[int, Meta(ge=1)]
Number = Annotated[int, Meta(ge=1, le=1_000_000)]
Chosen = Annotated[str, Meta(min_length=1, max_length=1000)] | Number


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A job is made without parameters; its video comes later."""


class ConfirmUpload(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the video is."""

    video_uri: Annotated[
        Annotated[str, Meta(min_length=1, max_length=2048, pattern=r"\S")] | None,
        Meta(
            description="Kept exactly as given. May be left out after an upload through this"
            " service: then it is the uploaded file.",
            examples=["s3://videos/7f3a.mp4"],
        ),
    ] = None


class Regenerate(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the draft is to be written anew, and how."""

    base_version: Annotated[
        Version | None,
        Meta(description="The version of `draft` that the caller looked at; default: the current"),
    ] = None
    selection: Annotated[
        Chosen
        | Annotated[list[Chosen], Meta(min_length=1, max_length=200)]
        | dict[str, Any]
        | None,
        Meta(description="The part meant: a step's id or number, a list of them; none: all."),
    ] = None
    instruction: Annotated[
        Annotated[str, Meta(min_length=1, max_length=4000)] | None,
        Meta(description="What should become of it, in words."),
    ] = None
    moment_s: Annotated[
        Annotated[float, Meta(ge=0, le=1_000_000)] | None,
        Meta(
            description="Takes the picture of the one selected step at this moment of the film."
            " Its words change only if an `instruction` says so too."
        ),
    ] = None
    client_request_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None,
        Meta(description="The same id again is the same task, and starts nothing."),
    ] = None


class Export(Struct, frozen=True, forbid_unknown_fields=True):
    """The form that the instruction is exported in."""

    format: Annotated[
        Format | Annotated[list[Format], Meta(min_length=1, max_length=2)],
        Meta(
            description="A document (`PDF`), Markdown with its pictures (`MD_ZIP`), or a list of"
            " both: the first is what `export_uri` names.",
            examples=["PDF"],
        ),
    ]
    version: Annotated[
        Version | None, Meta(description="A version of `draft`; default: the current one.")
    ] = None


class Fail(Struct, frozen=True, forbid_unknown_fields=True):
    """Why an operator gives up on a job."""

    failure_code: Annotated[
        str, Meta(min_length=1, max_length=128, description="Stable, for programs.")
    ]
    failure_message: Annotated[
        str, Meta(min_length=1, max_length=4000, pattern=r"\S", description="For people.")
    ]
    failed_stage: Annotated[FailedStage, Meta(description="The stage that is to blame.")]
