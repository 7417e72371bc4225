"""The settings of an operator under ``[workflows.asset-pattern.settings]``."""

from typing import Annotated

from msgspec import Meta, Struct

Origin = Annotated[str, Meta(pattern=r"^https?://[^\s]+$", description="a URL with http or https")]


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """``origins`` may bring inputs though they are private."""

    origins: list[Origin] = []
