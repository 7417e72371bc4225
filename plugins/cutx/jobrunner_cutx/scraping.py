"""The stage ``cutx.scrape``: what a page says about a product.

Sellers say it in up to four ways: as data (JSON-LD), as a card for sharing (Open Graph), in meta
tags, and in what people see. What is said as data is believed first; each fact says where it is
from. A page is a stranger's: a parser in a process of its own reads it, and nothing in it runs.
"""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from jobrunner import Done, PermanentFailure, PlainContext, stage
from jobrunner_cutx.params import Scrape

PAGE_MAX = 8 * 1024 * 1024
TEXT_MAX = 5_000
IMAGES_MAX = 20
TYPES = ("text/html", "application/xhtml")
OPEN_GRAPH = {
    "name": "og:title",
    "description": "og:description",
    "image_url": "og:image",
    "brand": "product:brand",
    "price": "product:price:amount",
    "currency": "product:price:currency",
    "site": "og:site_name",
}
Page = LexborHTMLParser
Facts = dict[str, str]


@stage("cutx.scrape")
def scrape(ctx: PlainContext[Scrape]) -> Done:
    ctx.progress(10, "reading the page")
    reply = ctx.http.get(ctx.params.url, headers={"Accept": "text/html"}, max_size=PAGE_MAX)
    kind = reply.headers.get("content-type", "")
    if kind and not kind.lower().startswith(TYPES):
        text = f"the address leads to {kind.partition(';')[0]!r:.80}, not to a page"
        raise PermanentFailure("NO_PAGE", text)
    ctx.progress(60, "looking for the product")
    product, found_by = read(reply.body, reply.url)
    if "name" not in product:
        raise PermanentFailure("PRODUCT_NOT_FOUND", "the page does not say what it is about")
    return Done(result={"product": product, "found_by": found_by, "url": reply.url})


def read(body: bytes, url: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The product, and by fact where it was found."""
    page = Page(_decoded(body))
    product: dict[str, Any] = {}
    found_by: dict[str, str] = {}
    for source, facts in (
        ("json-ld", _structured(page)),
        ("open graph", _shared(page)),
        ("meta", _meta(page)),
        ("page", _seen(page)),
    ):
        for name, value in facts.items():
            if name not in product and (text := _plain(value)):
                product[name] = urljoin(url, text) if name == "image_url" else text
                found_by[name] = source
    if images := _images(page, url):
        product["images"] = images
    if features := _features(page):
        product["features"] = features
    return product, found_by


def _decoded(body: bytes) -> str:
    named = re.search(rb"<meta[^>]+charset=[\"']?([A-Za-z0-9_-]+)", body[:4096], re.IGNORECASE)
    for encoding in (named[1].decode("ascii") if named else "utf-8", "utf-8"):
        try:
            return body.decode(encoding)
        except (LookupError, UnicodeDecodeError):
            continue
    return body.decode("utf-8", "replace")


def _structured(page: Page) -> Facts:
    for node in page.css('script[type="application/ld+json"]'):
        try:
            data = json.loads(node.text() or "")
        except (json.JSONDecodeError, RecursionError):
            continue
        for thing in _things(data):
            if "Product" in str(thing.get("@type", "")):
                return _product(thing)
    return {}


def _things(data: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Everything that is described, however it is wrapped."""
    if depth > 6:
        return
    if isinstance(data, list):
        for one in data:
            yield from _things(one, depth + 1)
    elif isinstance(data, dict):
        yield data
        yield from _things(data.get("@graph", []), depth + 1)
        yield from _things(data.get("mainEntity", []), depth + 1)


def _product(thing: dict[str, Any]) -> Facts:
    offer = _one(thing.get("offers"))
    offer = offer if isinstance(offer, dict) else {}
    image = _one(thing.get("image"))
    rating = thing.get("aggregateRating")
    found = {
        "name": thing.get("name"),
        "description": thing.get("description"),
        "brand": _name(thing.get("brand")),
        "category": _name(thing.get("category")),
        "sku": thing.get("sku"),
        "image_url": image.get("url") if isinstance(image, dict) else image,
        "price": offer.get("price") or offer.get("lowPrice"),
        "currency": offer.get("priceCurrency"),
        "availability": str(offer.get("availability", "")).rpartition("/")[2],
        "rating": rating.get("ratingValue") if isinstance(rating, dict) else None,
    }
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _name(value: Any) -> Any:
    value = _one(value)
    return value.get("name") if isinstance(value, dict) else value


def _shared(page: Page) -> Facts:
    return {name: _content(page, f'meta[property="{tag}"]') for name, tag in OPEN_GRAPH.items()}


def _meta(page: Page) -> Facts:
    return {
        "description": _content(page, 'meta[name="description"]'),
        "name": _content(page, 'meta[name="title"]'),
        "image_url": _content(page, 'meta[name="twitter:image"]'),
    }


def _seen(page: Page) -> Facts:
    told = page.css_first("h1") or page.css_first("title")
    return {
        "name": told.text() if told else "",
        "price": _seen_price(page),
    }


def _seen_price(page: Page) -> str:
    node = page.css_first('[itemprop="price"]') or page.css_first('[class*="price"]')
    if node is None:
        return ""
    found = re.search(r"\d[\d.,\s]{0,12}", node.attributes.get("content") or node.text())
    return found[0].strip() if found else ""


def _content(page: Page, selector: str) -> str:
    node = page.css_first(selector)
    return (node.attributes.get("content") or "") if node else ""


def _images(page: Page, url: str) -> list[str]:
    sources = (node.attributes.get("src") or "" for node in page.css("img"))
    full = (urljoin(url, source) for source in sources if source and not source.startswith("data:"))
    return list(dict.fromkeys(one for one in full if one.startswith("http")))[:IMAGES_MAX]


def _features(page: Page) -> list[str]:
    """The first list of short lines that looks like it tells about a product."""
    for holder in page.css("ul"):
        lines = [_plain(node.text()) for node in holder.css("li")]
        telling = [line for line in lines if 8 <= len(line) <= 160]
        inside = holder.parent.tag if holder.parent else ""
        links = len(holder.css("a"))
        if 3 <= len(telling) <= 30 and links < len(lines) / 2 and inside not in ("nav", "footer"):
            return telling[:20]
    return []


def _plain(text: str) -> str:
    return " ".join(str(text).split())[:TEXT_MAX]
