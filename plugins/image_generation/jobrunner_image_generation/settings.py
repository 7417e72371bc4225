"""The settings of an operator under ``[workflows.image-generation.settings]``."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

Address = Annotated[
    str, Meta(pattern=r"^(https?://[^\s]+)?$", description="a URL with http or https, or nothing")
]
BLOCKED = ("nsfw", "nude", "nudity", "porn", "hentai", "gore", "beheading")
Words = list[Annotated[str, Meta(min_length=1)]]


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """``blocked_words`` are those that no prompt may hold."""

    provider: Literal["sketch", "openai", "replicate"] = "sketch"
    base_url: Address = ""
    model: str = ""
    models: Words = []
    version: str = ""
    key_env: str = ""
    timeout_s: Annotated[float, Meta(gt=0, le=10**6, description="seconds, more than 0")] = 100
    blocked_words: Words = field(default_factory=lambda: list(BLOCKED))
