"""The settings of an operator under ``[workflows.howera.settings]``."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Address = Annotated[
    str, Meta(pattern=r"^(https?://[^\s]+)?$", description="a URL with http or https, or nothing")
]


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    auto_edit: bool = False
    review_transcript: bool = False
    transcriber: Literal["moonshine", "openai"] = "moonshine"
    transcribe_model: str = ""
    language: str = ""
    writer: Literal["", "openai"] = ""
    model: str = ""
    base_url: Address = ""
    key_env: str = ""
