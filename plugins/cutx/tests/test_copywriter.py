"""The built-in copywriter: five different variants, whole, and never longer than they may be."""

from itertools import product as every
from typing import Any, get_args

import msgspec
import pytest
from jobrunner_cutx import copywriter
from jobrunner_cutx.params import Copy, Format, Platform, Tone

LAMP: dict[str, Any] = {
    "name": "Lumen Desk Lamp",
    "brand": "Lumen",
    "category": "Office lamp",
    "description": "A lamp for people who read late. It remembers how bright you like it",
    "features": ["Warm light that dims by touch", "USB-C port in its base", "folds flat"],
    "audience": "Night readers",
    "price": "59 EUR",
}
PRODUCTS: dict[str, Any] = {
    "known": LAMP,
    "unknown": None,
    "only a name": {"name": "Lamp"},
    "the longest": {
        "name": "N" * 128,
        "brand": "B" * 128,
        "category": "c" * 128,
        "description": "d" * 5000,
        "features": ["f" * 500] * 50,
        "audience": "a" * 500,
        "price": "9" * 64,
    },
    "blank": {"name": " ", "description": " \n", "features": [" "], "price": " ", "category": " "},
    "another alphabet": {"name": "日本語の商品", "description": "とても良い。明るい。"},
    "one sentence": {"name": "Lamp", "description": "It is a lamp."},
}


def order(**fields: Any) -> Copy:
    said = {name: value for name, value in fields.items() if value is not None}
    return msgspec.convert({"product_id": "lamp-7", **said}, Copy)


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS.keys())
def test_five_variants_within_their_limits(product: Any) -> None:
    """C23: whatever is known of the product, on each platform, in each form and tone."""
    forms = (None, *get_args(Format))
    for platform, form, tone in every(get_args(Platform), forms, (None, *get_args(Tone))):
        asked = order(platform=platform, format=form, tone=tone, product=product)
        variants = copywriter.write(asked)
        headline_max, text_max = copywriter.LIMITS[platform]
        text_max = int(text_max * copywriter.LENGTHS.get(form or "", 1))
        assert len(variants) == 5
        assert len({variant.angle for variant in variants}) == 5
        assert len({variant.headline for variant in variants}) == 5, variants
        assert len({variant.text for variant in variants}) == 5, variants
        for variant in variants:
            assert 0 < len(variant.headline) <= headline_max, (asked, variant)
            assert 0 < len(variant.text) <= text_max, (asked, variant)
            assert variant.call_to_action
            whole(variant.text)


def whole(text: str) -> None:
    """Nothing is cut, doubled or left open."""
    assert text == " ".join(text.split())
    assert text.endswith(copywriter.ENDS), text
    assert not {"..", "…", " .", ",.", "None"} & {text[at : at + 2] for at in range(len(text))}
    assert text[0].isupper() or not text[0].isalpha() or not text[0].isascii(), text


def test_what_is_given_is_said_and_nothing_else() -> None:
    said = " ".join(variant.text for variant in copywriter.write(order(product=LAMP)))
    for fact in ("Warm light that dims by touch.", "USB-C port in its base.", "59 EUR"):
        assert fact in said
    bare = " ".join(variant.text for variant in copywriter.write(order()))
    assert "EUR" not in bare
    assert "light" not in bare


def test_the_tone_is_heard() -> None:
    texts = {tone: copywriter.write(order(tone=tone, product=LAMP)) for tone in get_args(Tone)}
    assert len({str(variants) for variants in texts.values()}) == len(texts)


def test_a_longer_form_says_more() -> None:
    short, usual, long = (
        sum(
            len(one.text)
            for one in copywriter.write(order(platform="meta", format=form, product=LAMP))
        )
        for form in ("short", None, "long")
    )
    assert short < usual < long


def test_words_in_quotation_marks_are_said() -> None:
    """Instructions are for the writer: what they say to it is not for the public."""
    asked = order(custom_instructions='Be kind. Mention "free shipping" at the end.', product=LAMP)
    for variant in copywriter.write(asked):
        assert variant.text.endswith("Free shipping."), variant
        assert "Be kind" not in variant.text


def test_the_same_order_is_the_same_text() -> None:
    assert copywriter.write(order(product=LAMP)) == copywriter.write(order(product=LAMP))
