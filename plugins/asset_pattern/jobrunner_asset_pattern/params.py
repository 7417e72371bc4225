"""The parameters of the two types of work. Everything has a default: no parameters at all is a
submission.

``extra`` is for what an operator's own stage wants to know; it is handed on untouched. The JSON
Schemas that the service publishes are made of these.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Source = Annotated[str, Meta(min_length=1, max_length=2048)]
Edge = Annotated[int, Meta(ge=1, le=16384)]
Title = Annotated[str, Meta(max_length=200)]
Extra = Annotated[
    dict[str, Any],
    Meta(max_length=64, description="Anything else that the bound stage understands."),
]


class Generation(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A batch: every input is made into files of the wanted format and sizes."""

    title: Annotated[Title, Meta(description="What a person calls this batch.")] = ""
    prompt: Annotated[
        str, Meta(max_length=4000, description="What to make, for stages that make from words.")
    ] = ""
    inputs: Annotated[
        list[Source],
        Meta(max_length=1000, description="Ids of uploaded assets, or https addresses."),
    ] = []
    format: Annotated[
        Literal["original", "png", "jpeg", "webp"], Meta(description="Of the files that are made.")
    ] = "original"
    sizes: Annotated[
        list[Edge],
        Meta(max_length=16, description="Longest edges, in pixels; none: as large as the input."),
    ] = []
    extra: Extra = {}


class Export(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A bundle: the owner's files packed into one, with a list of what is in it."""

    title: Annotated[Title, Meta(description="Of the bundle; also its file's name.")] = ""
    inputs: Annotated[
        list[Source],
        Meta(max_length=1000, description="Ids of assets; none: all that the owner has."),
    ] = []
    asset_types: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=50)]],
        Meta(max_length=50, description="Only files of these types; none: of every type."),
    ] = []
    format: Annotated[Literal["zip", "tar.gz"], Meta(description="Of the bundle.")] = "zip"
    manifest: Annotated[bool, Meta(description="Put the list into the bundle.")] = True
    extra: Extra = {}
