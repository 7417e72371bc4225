"""Products as pages describe them to machines: schema.org in JSON-LD, and what is taken for it."""

import json
import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any

Facts = dict[str, str]
WRAPPING = re.compile(r"^\s*(?:<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/|<!\[CDATA\[)"
                      r"|(?:-->|//\s*\]\]>|/\*\s*\]\]>\s*\*/|\]\]>)\s*$")  # fmt: skip
DEEPEST = 6


def product_in(scripts: Iterable[str]) -> Facts:
    """The facts of the first product that says its name, or of the first one."""
    found = [_product(thing) for script in scripts for thing in _things(_data(script))
             if "Product" in str(thing.get("@type", ""))]  # fmt: skip
    return next((facts for facts in found if "name" in facts), found[0] if found else {})


def _data(script: str) -> Any:
    """Sellers wrap it as if it were a program, and break lines inside of texts."""
    try:
        return json.loads(WRAPPING.sub("", script), strict=False)
    except (ValueError, RecursionError):
        return None


def _things(data: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Everything that is described, however it is wrapped."""
    if depth > DEEPEST:
        return
    if isinstance(data, list):
        for one in data:
            yield from _things(one, depth + 1)
    elif isinstance(data, dict):
        yield data
        for name in ("@graph", "mainEntity", "hasVariant"):
            yield from _things(data.get(name), depth + 1)


def _product(thing: dict[str, Any]) -> Facts:
    offer = _table(thing.get("offers"))
    price = offer.get("price")
    found = {
        "name": _text(thing.get("name")),
        "description": _text(thing.get("description")),
        "brand": _text(thing.get("brand")),
        "category": _text(thing.get("category")),
        "sku": _text(thing.get("sku")),
        "image_url": _text(thing.get("image")),
        "price": _text(offer.get("lowPrice") if price is None else price),
        "currency": _text(offer.get("priceCurrency")),
        "availability": _text(offer.get("availability")).rpartition("/")[2],
        "rating": _text(_table(thing.get("aggregateRating")).get("ratingValue")),
    }
    return {name: value for name, value in found.items() if value.strip()}


def _table(value: Any) -> dict[str, Any]:
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """The first one of several; of a thing its name, or where it is."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, dict):
        known = (value.get(name) for name in ("@value", "name", "url", "contentUrl"))
        value = next((one for one in known if isinstance(one, str)), "")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return unescape(str(value))
