"""The orders, one struct per type. The published JSON Schemas are made of these.

A field that is left out (null) is the stage's to choose.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Platform = Literal["meta", "tiktok", "google", "linkedin", "pinterest", "universal"]
Format = Literal["short", "long", "hook", "story"]
Tone = Literal["professional", "casual", "urgent", "luxe", "playful", "bold"]
Style = Literal["product_hero", "lifestyle", "minimal", "bold", "seasonal"]
Ratio = Literal["1:1", "9:16", "4:5", "16:9"]

Name = Annotated[str, Meta(min_length=1, max_length=128)]
ProductId = Annotated[
    str, Meta(min_length=1, max_length=128, description="The caller's own name for the product.")
]
ProjectId = Annotated[
    str, Meta(min_length=1, max_length=128, description="The caller's own name for the project.")
]
Prose = Annotated[str, Meta(max_length=5000)]
SPACE = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
Address = Annotated[
    str, Meta(max_length=2048, pattern=rf"^https?://[^/{SPACE}]+[^{SPACE}]*(?!\n)$")
]


class Product(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of the product, when the caller wants to say it rather than have it read."""

    name: Name | None = None
    brand: Name | None = None
    category: Name | None = None
    description: Prose | None = None
    features: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=500)]], Meta(max_length=50)
    ] = []
    audience: Annotated[str, Meta(max_length=500)] | None = None
    price: Annotated[str, Meta(max_length=64)] | None = None
    url: Address | None = None
    image_url: Address | None = None


class Order(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The common part of every order about a product."""

    product_id: ProductId
    project_id: ProjectId | None = None
    product: Product | None = None


class Copy(Order, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Five variants of an advertisement's text."""

    platform: Annotated[Platform, Meta(description="Where the text will stand.")] = "universal"
    format: Format | None = None
    tone: Tone | None = None
    custom_instructions: (
        Annotated[str, Meta(max_length=500, description="Whatever else the writer should know.")]
        | None
    ) = None


class StaticAd(Order, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A picture of the product to advertise with."""

    style: Style | None = None
    aspect_ratio: Ratio = "1:1"
    prompt: Annotated[str, Meta(min_length=5, max_length=1000)] | None = None


class UgcVideo(Order, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A short film that looks as if a customer had made it."""

    script: Annotated[str, Meta(min_length=1, max_length=5000)] | None = None
    prompt: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    aspect_ratio: Ratio = "9:16"


class Scrape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An order to read what a page says about a product."""

    url: Annotated[Address, Meta(description="The page to read, http or https.")]
    product_id: ProductId | None = None
    project_id: ProjectId | None = None


class Tts(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A text, read aloud."""

    text: Annotated[str, Meta(min_length=1, max_length=5000, pattern=r"\S")]
    voice: (
        Annotated[str, Meta(min_length=1, max_length=64, description="A voice the stage knows.")]
        | None
    ) = None
    product_id: ProductId | None = None
    project_id: ProjectId | None = None


STRUCTS: dict[str, type[Struct]] = {
    "copy": Copy,
    "static_ad": StaticAd,
    "ugc_video": UgcVideo,
    "scrape": Scrape,
    "tts": Tts,
}
