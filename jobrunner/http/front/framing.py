"""Where a request ends, told from its first bytes if it is of the plainest form.

This is no parser: it knows one way in which requests are written, the way of nearly all clients,
and of everything else it says that it does not know. So what it does say is beyond doubt: no folded
or broken line, no second length, no coding of the body, nothing that asks for another protocol.
"""

import re
from typing import NamedTuple

LINE = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++:[\t -~]*+\r\n"
VERBS = rb"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)"
PLAIN = re.compile(rb"(" + VERBS + rb" /[!-~]*+) HTTP/1\.1\r\n((?:" + LINE + rb")*+)\r\n")
BEGUN = re.compile(rb"(" + VERBS + rb" /[!-~]*+) HTTP/1\.1\r\n(?:" + LINE + rb")*+[^\r\n]*\r?\Z")
TELLING = re.compile(
    rb"\n(content-length|transfer-encoding|expect|upgrade|connection|x-request-id):"
    rb"[\t ]*+([^\r]*?)[\t ]*+\r"
)
DIGITS_MAX = 12


class Framed(NamedTuple):
    """``call`` is method and target, as in ``POST /jobs``; ``size`` that of the whole request, of
    which not all need be there, and None while its head is not whole. ``request_id`` is lower
    case: who wants it as it was given looks in the head."""

    call: bytes
    size: int | None
    names_itself: bool = False


def framed(data: bytes) -> Framed | None:
    """Read the request that ``data`` begins with; None when it is not as plain as that."""
    found = PLAIN.match(data)
    if found is None:
        return _begun(data)
    length, names_itself = 0, False
    told = TELLING.findall(data[found.start(2) - 1 : found.end(2)].lower())
    for name, value in told:
        if name == b"content-length" and value.isdigit() and len(value) <= DIGITS_MAX:
            length = int(value)
        elif name == b"x-request-id":
            names_itself = True
        elif name != b"connection" or value != b"keep-alive":
            return None
    if len(told) > 1 and len(dict(told)) < len(told):
        return None
    return Framed(found[1], found.end() + length, names_itself)


def _begun(data: bytes) -> Framed | None:
    found = BEGUN.match(data)
    return None if found is None else Framed(found[1], None)
