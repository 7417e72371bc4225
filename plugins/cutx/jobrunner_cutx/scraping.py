"""The stage ``cutx.scrape``: what a page says about a product.

Sellers say it in up to four ways: as data (JSON-LD), as a card for sharing (Open Graph), in meta
tags, and in what people see. What is said as data is believed first; each fact says where it is
from. A page is a stranger's: a parser in a process of its own reads it, and nothing in it runs.
"""

import codecs
import re
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from jobrunner import Done, PermanentFailure, PlainContext, stage
from jobrunner_cutx.describing import Facts, product_in
from jobrunner_cutx.params import Scrape

PAGE_MAX = 8 * 1024 * 1024
TEXT_MAX = 5_000
IMAGES_MAX = 20
LISTS_MAX, LINES_MAX = 200, 100
LETTERS_MAX = 16 * 1024 * 1024  # of all lists together, which may lie in each other
ADDRESS_MAX = 2_048
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
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
CHARSET = re.compile(r"charset=[\"']?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
Page = LexborHTMLParser


@stage("cutx.scrape")
def scrape(ctx: PlainContext[Scrape]) -> Done:
    ctx.progress(10, "reading the page")
    reply = ctx.http.get(ctx.params.url, headers={"Accept": "text/html"}, max_size=PAGE_MAX)
    kind = reply.headers.get("content-type", "")
    if kind and not kind.lower().startswith(TYPES):
        text = f"the address leads to {kind.partition(';')[0]!r:.80}, not to a page"
        raise PermanentFailure("NO_PAGE", text)
    ctx.progress(60, "looking for the product")
    product, found_by = read(reply.body, reply.url, _charset(kind))
    if "name" not in product:
        raise PermanentFailure("PRODUCT_NOT_FOUND", "the page does not say what it is about")
    return Done(result={"product": product, "found_by": found_by, "url": reply.url})


def read(body: bytes, url: str, charset: str = "") -> tuple[dict[str, Any], dict[str, str]]:
    """The product, and by fact where it was found. ``charset`` is what the answer's header says."""
    page = Page(_decoded(body, charset))
    product: dict[str, Any] = {}
    found_by: dict[str, str] = {}
    for source, facts in (
        ("json-ld", product_in(_scripts(page))),
        ("open graph", _shared(page)),
        ("meta", _meta(page)),
        ("page", _seen(page)),
    ):
        for name, value in facts.items():
            text = _address(url, value) if name == "image_url" else _plain(value)
            if text and name not in product:
                product[name] = text
                found_by[name] = source
    if images := _images(page, url):
        product["images"] = images
    if features := _features(page):
        product["features"] = features
    return product, found_by


def _charset(text: str) -> str:
    named = CHARSET.search(text)
    return named[1] if named else ""


def _decoded(body: bytes, charset: str) -> str:
    """As browsers do it: a mark at the beginning, the header, the page itself, and UTF-8."""
    mark = next((name for mark, name in MARKS.items() if body.startswith(mark)), "")
    told = _charset(body[:4096].decode("ascii", "replace"))
    for encoding in filter(None, (mark, charset, told)):
        try:
            return body.decode(encoding)
        except (LookupError, UnicodeError, ValueError):
            continue
    return body.decode("utf-8", "replace")


def _scripts(page: Page) -> list[str]:
    return [node.text() or "" for node in page.css('script[type="application/ld+json" i]')]


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
    return {"name": told.text() if told else "", "price": _seen_price(page)}


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
    full = (_address(url, source) for source in sources)
    return list(dict.fromkeys(filter(None, full)))[:IMAGES_MAX]


def _address(url: str, text: str) -> str:
    """Whole, and one that can be fetched; else nothing."""
    text = _plain(text)
    try:
        full = urljoin(url, text) if text else ""
    except ValueError:
        return ""
    return full if full.startswith(("http://", "https://")) and len(full) <= ADDRESS_MAX else ""


def _features(page: Page) -> list[str]:
    """The first list of short lines that looks like it tells about a product. Lists that lie in
    each other are read again with every one around them, so there is an end to it."""
    left = LETTERS_MAX
    for holder in page.css("ul")[:LISTS_MAX]:
        told = [node.text() for node in islice(holder.iter(), LINES_MAX) if node.tag == "li"]
        left -= sum(map(len, told))
        if left < 0:
            break
        lines = [_plain(text) for text in told]
        telling = [line for line in lines if 8 <= len(line) <= 160]
        inside = holder.parent.tag if holder.parent else ""
        links = len(holder.css("a"))
        if 3 <= len(telling) <= 30 and links < len(lines) / 2 and inside not in ("nav", "footer"):
            return telling[:20]
    return []


def _plain(text: str) -> str:
    """On one line, and such that it can be stored."""
    return " ".join(text.replace("\0", " ").encode("utf-8", "replace").decode().split())[:TEXT_MAX]
