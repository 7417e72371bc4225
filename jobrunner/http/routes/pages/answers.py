"""The page of a question, for a person who has its address and nothing else.

The address is the right to answer. So the page says it to nobody: nothing of it is loaded from
elsewhere, no request tells where it came from, and no session is sent with the answer. Looking
changes nothing, for programs follow links; only the button of its form answers.
"""

from html import escape
from typing import Any

import msgspec

from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import HttpCall, HttpReply
from jobrunner.http.routes.pages.dashboard import build
from jobrunner.http.routes.pages.docs import HTML

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>{title}</title>
<link rel="icon" href="{parts}/mark.svg" type="image/svg+xml">
<link rel="stylesheet" href="{parts}/look.css">
{script}</head>
<body class="question">
<main><h1>{title}</h1>
<p class="asked">{text}</p>
{form}</main>
</body>
</html>
"""
SCRIPT = '<script type="module" src="{parts}/answer.js"></script>\n'
FORM = """<div id="answer"></div>
<noscript><p>Without scripts, send JSON to this address by POST, once{until}:</p>
<pre>curl -X POST -H 'Content-Type: application/json' -d @answer.json '{url}'</pre>
<p>The answer looks like this:</p>
<pre>{schema}</pre></noscript>
"""


def question_page(
    call: HttpCall,
    text: str,
    name: str = "A question",
    expires_at: str | None = None,
    asks: dict[str, Any] | None = None,
) -> HttpReply:
    """Show a question with its form; without ``asks`` there is nothing to answer."""
    parts = link(call, f"/page/{build()}")
    page = PAGE.format(
        title=escape(name),
        text=escape(text),
        parts=parts,
        script="" if asks is None else SCRIPT.format(parts=parts),
        form="" if asks is None else _form(call, asks, expires_at),
    )
    return HttpReply(200, page.encode(), HEADERS, HTML)


def _form(call: HttpCall, asks: dict[str, Any], expires_at: str | None) -> str:
    return FORM.format(
        until=escape(f", until {expires_at}" if expires_at else ""),
        url=escape(link(call, f"/callbacks/{call.path['token']}")),
        schema=escape(msgspec.json.format(msgspec.json.encode(asks), indent=2).decode()),
    )
