"""The settings of an operator under ``[workflows.cutx.settings]``."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Address = Annotated[
    str, Meta(pattern=r"^(https?://[^\s]+)?$", description="a URL with http or https, or nothing")
]
Model = Annotated[str, Meta(min_length=1, description="a model's name, as owner/name")]


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    writer: Literal["", "openai"] = ""
    writer_url: Address = ""
    writer_model: str = ""
    writer_key_env: str = ""
    provider_url: Address = ""
    provider_key_env: str = ""
    models: dict[Literal["copy", "static_ad", "ugc_video", "scrape", "tts"], Model] = {}
    await_s: Annotated[float, Meta(gt=0, le=10**6, description="seconds, more than 0")] = 900
