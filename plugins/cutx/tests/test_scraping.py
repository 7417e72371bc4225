"""Reading product pages: what sellers write, well and badly."""

import json
import resource
import subprocess
import sys
from typing import Any

import pytest
from jobrunner_cutx.scraping import IMAGES_MAX, TEXT_MAX, read

CPU_S = 14
URL = "https://shop.example/lamps/7?color=red"
PRODUCT: dict[str, Any] = {
    "@context": "https://schema.org",
    "@type": "Product",
    "name": "Lumen Desk Lamp",
    "description": "A lamp for people who read late.",
    "image": ["/img/lamp.jpg", "/img/lamp-2.jpg"],
    "brand": {"@type": "Brand", "name": "Lumen"},
    "sku": "L-7",
    "offers": {
        "@type": "Offer",
        "price": 59.0,
        "priceCurrency": "EUR",
        "availability": "https://schema.org/InStock",
    },
    "aggregateRating": {"@type": "AggregateRating", "ratingValue": "4.6"},
}


def page(*parts: str, head: str = "") -> bytes:
    return f"<!doctype html><html><head>{head}</head><body>{''.join(parts)}</body></html>".encode()


def data(*things: Any) -> str:
    texts = (thing if isinstance(thing, str) else json.dumps(thing) for thing in things)
    return "".join(f'<script type="application/ld+json">{text}</script>' for text in texts)


WRAPPED: dict[str, str] = {
    "plain": data(PRODUCT),
    "in a list": data([{"@type": "WebSite", "name": "Shop"}, PRODUCT]),
    "in a graph": data({"@context": "x", "@graph": [{"@type": "BreadcrumbList"}, PRODUCT]}),
    "as main entity": data({"@type": "WebPage", "name": "A page", "mainEntity": PRODUCT}),
    "with two types": data({**PRODUCT, "@type": ["Product", "Thing"]}),
    "by its long name": data({**PRODUCT, "@type": "https://schema.org/Product"}),
    "after a broken one": data('{"@type": "Product", ', PRODUCT),
    "after nothing": data("", PRODUCT),
    "beside another": data({"@type": "Organization", "name": "Shop Ltd"}, PRODUCT),
    "in capitals": data(PRODUCT).replace("application/ld+json", "Application/LD+JSON"),
    "with a comment": data(f"<!-- {json.dumps(PRODUCT)} -->"),
    "in a CDATA section": data(f"//<![CDATA[\n{json.dumps(PRODUCT)}\n//]]>"),
    "with raw line breaks": data(json.dumps(PRODUCT).replace("people who", "people\n\twho")),
    "as a group": data({"@type": "ProductGroup", "name": "Lamps", "hasVariant": [PRODUCT],
                        **{key: PRODUCT[key] for key in PRODUCT if key not in ("@type", "name")},
                        }).replace('"Lamps"', '"Lumen Desk Lamp"'),
}  # fmt: skip


@pytest.mark.parametrize("how", WRAPPED)
def test_data_for_machines_is_believed_first(how: str) -> None:
    """C23, and that it is found however it is wrapped."""
    shared = '<meta property="og:title" content="Buy now | Shop">'
    product, found_by = read(page("<h1>Something else</h1>", head=shared + WRAPPED[how]), URL)
    assert product["name"] == "Lumen Desk Lamp"
    assert product["description"] == "A lamp for people who read late."
    assert product["image_url"] == "https://shop.example/img/lamp.jpg"
    assert product["brand"] == "Lumen"
    assert (product["price"], product["currency"]) == ("59.0", "EUR")
    assert product["availability"] == "InStock"
    assert product["rating"] == "4.6"
    assert found_by["name"] == "json-ld"


ODD: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a list of offers": ({"offers": [{"price": "12"}, {"price": "99"}]}, {"price": "12"}),
    "a range": ({"offers": {"lowPrice": "10", "highPrice": "20"}}, {"price": "10"}),
    "an image object": ({"image": {"url": "//cdn.example/a.png"}},
                        {"image_url": "https://cdn.example/a.png"}),
    "a brand in a list": ({"brand": [{"name": "One"}, {"name": "Two"}]}, {"brand": "One"}),
    "a brand as text": ({"brand": "Lumen"}, {"brand": "Lumen"}),
    "a price of nothing": ({"offers": {"price": 0}}, {"price": "0"}),
    "entities": ({"description": "warm &amp; bright"}, {"description": "warm & bright"}),
    "lists of names": ({"name": ["Lamp", "Lampe"]}, {"name": "Lamp"}),
    "languages": ({"name": {"@value": "Lamp", "@language": "en"}}, {"name": "Lamp"}),
}  # fmt: skip


@pytest.mark.parametrize("how", ODD)
def test_odd_but_frequent(how: str) -> None:
    given, wanted = ODD[how]
    product, _ = read(page(head=data({"@type": "Product", "name": "Lamp", **given})), URL)
    for name, value in wanted.items():
        assert product[name] == value


NONSENSE: dict[str, Any] = {
    "numbers": 17,
    "text": "Product",
    "null": None,
    "deep": "[" * 100_000,
    "a loop of lists": [[[[[[[[[{"@type": "Product", "name": "x"}]]]]]]]]],
    "wrong types": {"@type": "Product", "name": {"a": 1}, "offers": "cheap", "image": 7,
                    "brand": 3, "aggregateRating": [], "description": ["a", {"b": 2}]},
    "empty lists": {"@type": "Product", "offers": [], "image": [], "brand": [], "name": []},
    "half": '{"@type": "Product", "name": "La',
    "lone surrogates": '{"@type": "Product", "description": "\\ud800"}',
}  # fmt: skip


@pytest.mark.parametrize("how", NONSENSE)
def test_nonsense_costs_nothing_but_itself(how: str) -> None:
    """What is no data is passed over, and the rest of the page is read; what comes of it can be
    stored."""
    body = page("<h1>Lamp</h1>", head=data(NONSENSE[how]))
    product, _ = read(body, URL)
    assert product["name"] in ("Lamp", "x")
    json.dumps(product).encode()
    assert all(value.encode() for value in product.values() if isinstance(value, str))
    assert all(isinstance(value, str | list) for value in product.values())
    assert "{" not in str(product.get("name")) + str(product.get("description", ""))


def test_a_card_for_sharing() -> None:
    head = """
      <meta property="og:title" content="Lumen &amp; Co">
      <meta property="og:description" content="  A   lamp
         that dims ">
      <meta property="og:image" content="lamp.png">
      <meta property="og:site_name" content="Shop">
      <meta property="product:price:amount" content="59,00">
      <meta property="product:price:currency" content="EUR">
      <title>Shop</title>"""
    product, found_by = read(page("<h1>Other</h1>", head=head), URL)
    assert product == {
        "name": "Lumen & Co",
        "description": "A lamp that dims",
        "image_url": "https://shop.example/lamps/lamp.png",
        "site": "Shop",
        "price": "59,00",
        "currency": "EUR",
    }
    assert set(found_by.values()) == {"open graph"}


def test_the_card_fills_what_the_data_lacks() -> None:
    head = data({"@type": "Product", "name": "Lamp"})
    head += '<meta property="og:description" content="told"><meta name="description" content="no">'
    product, found_by = read(page(head=head), URL)
    assert (product["description"], found_by["description"]) == ("told", "open graph")
    assert found_by["name"] == "json-ld"


def test_meta_tags_and_what_people_see() -> None:
    body = page(
        "<h1> The <b>Lamp</b> </h1>",
        "<span class='old-price'>79,00 €</span>",
        "<nav><ul><li>All the products</li><li>About the shop</li><li>Contact us</li></ul></nav>",
        "<ul><li>Warm light that dims</li><li>USB-C in its base</li><li>Folds quite flat</li></ul>",
        "<img src='/a.png'><img src='/a.png'><img src='data:image/png;base64,AA'><img>",
        head='<meta name="description" content="A lamp."><title>Lamp - Shop</title>',
    )
    product, found_by = read(body, URL)
    assert product["name"] == "The Lamp"
    assert product["description"] == "A lamp."
    assert product["features"] == ["Warm light that dims", "USB-C in its base", "Folds quite flat"]
    assert product["images"] == ["https://shop.example/a.png"]
    assert product["price"].startswith("79")
    assert found_by == {"name": "page", "description": "meta", "price": "page"}


@pytest.mark.parametrize(
    "body", [b"", b" \n", b"\0" * 1000, b"<", b"<html>", b"\xff\xfe\xff", b"{}"]
)
def test_nothing_to_be_found(body: bytes) -> None:
    product, found_by = read(body, URL)
    assert "name" not in product
    assert found_by == {}


BROKEN = {
    "unclosed": b"<html><head><title>Lamp<body><p><div><h1>Lamp",
    "closed twice": b"</html></body></p><h1>Lamp</h1></h1></html>",
    "no head": b"<h1>Lamp</h1><p>text",
    "quotes": b'<meta property="og:title content="x"><h1 class="a"b">Lamp</h1>',
    "a thousand deep": b"<div>" * 3000 + b"<h1>Lamp</h1>",
}


@pytest.mark.parametrize("how", BROKEN)
def test_broken_markup(how: str) -> None:
    assert "Lamp" in read(BROKEN[how], URL)[0]["name"]


CHARSETS = {
    "utf-8": ("utf-8", ""),
    "utf-8 with a mark": ("utf-8-sig", ""),
    "latin-1, declared": ("latin-1", '<meta charset="iso-8859-1">'),
    "windows, the old way": (
        "cp1252",
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1252">',
    ),
    "utf-16 with a mark": ("utf-16", ""),
    "an unknown name": ("utf-8", '<meta charset="klingon">'),
    "a wrong one": ("utf-8", '<meta charset="ascii">'),
}


@pytest.mark.parametrize("how", CHARSETS)
def test_other_alphabets(how: str) -> None:
    encoding, head = CHARSETS[how]
    text = f"<html><head>{head}</head><body><h1>Café für Ælfred</h1></body></html>"
    assert read(text.encode(encoding), URL)[0]["name"] == "Café für Ælfred"


def test_the_header_names_the_charset() -> None:
    """It wins over the page, as browsers have it."""
    body = "<h1>Лампа</h1>".encode("koi8-r")
    assert read(body, URL, "koi8-r")[0]["name"] == "Лампа"


def test_a_large_page() -> None:
    """Megabytes of it: what is kept stays small."""
    body = page(
        f"<h1>{'Lamp ' * 10_000}</h1>",
        "<img src='/x.png'>" * 1000,
        *(f"<img src='/{number}.png'>" for number in range(10_000)),
        "<p>word</p>" * 300_000,
    )
    product, _ = read(body, URL)
    assert len(product["name"]) <= TEXT_MAX
    assert len(product["images"]) == IMAGES_MAX


def test_addresses_that_are_none() -> None:
    head = data({"@type": "Product", "name": "Lamp", "image": "http://[broken"})
    product, _ = read(page("<img src='http://[also'>", "<img src='javascript:x'>", head=head), URL)
    assert product["name"] == "Lamp"
    assert "images" not in product
    assert "image_url" not in product


COSTLY = """
from jobrunner_cutx.scraping import read
body = b"<h1>A lamp</h1>" + {body}
assert read(body, "https://shop.example/")[0]["name"] == "A lamp"
"""


@pytest.mark.parametrize(
    "body",
    [
        "b'<ul><li>some text here' * 16_000",
        "b'<ul><li>abcdefghij</li></ul>' * 100_000",
        "b'<ul>' + b'<li>x' * 300_000",
    ],
)
def test_lists_in_lists_are_not_read_for_ever(body: str) -> None:
    """The kernel counts what it costs."""
    done = subprocess.run(
        (sys.executable, "-c", COSTLY.format(body=body)),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
