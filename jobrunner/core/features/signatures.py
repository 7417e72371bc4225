"""Standard Webhooks, over the bytes as they go: what signs a message, and whether one is signed.

The id, the timestamp and the body are signed by HMAC-SHA256, with a secret that both sides know.
There may be several secrets while one is changed, and several signatures; one that fits is enough.
Whatever is wrong, the answer is the same, so that nobody learns from it.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping

MARK = "whsec_"
KEY_BYTES = range(24, 65)
TOLERANCE_S = 5 * 60
SIGNATURES_MAX = 10
HEADER_MAX = 2048
SAID = frozenset({"webhook-id", "webhook-timestamp", "webhook-signature"})
SIGNATURE = re.compile(r"v1,([A-Za-z0-9+/]{43}=)", re.ASCII)
ID = re.compile(r"[!-~]{1,255}", re.ASCII)
TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)


def key_in(secret: str) -> bytes | None:
    """Decode a ``whsec_`` secret; None when it is none."""
    if not secret.startswith(MARK) or len(secret) > 128:
        return None
    try:
        key = base64.b64decode(secret.removeprefix(MARK), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) in KEY_BYTES else None


def signature(key: bytes, webhook_id: str, timestamp: str, body: bytes) -> str:
    """Sign, as it stands behind ``v1,`` in the header."""
    said = f"{webhook_id}.{timestamp}.".encode() + body
    return base64.b64encode(hmac.digest(key, said, hashlib.sha256)).decode()


def signed(keys: Iterable[bytes], webhook_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers of a message, signed with each of the keys."""
    found = (signature(key, webhook_id, str(timestamp), body) for key in keys)
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{one}" for one in found),
    }


def verified(
    headers: Mapping[str, str], body: bytes, keys: Iterable[bytes], now_s: float
) -> str | None:
    """The id of a webhook that one of the keys has signed just now; None for every other."""
    said = _said(headers)
    webhook_id, timestamp = said.get("webhook-id", ""), said.get("webhook-timestamp", "")
    if not ID.fullmatch(webhook_id) or not TIMESTAMP.fullmatch(timestamp):
        return None
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        return None
    given = _signatures(said.get("webhook-signature", ""))
    fits = False
    for key in keys if given else ():
        expected = signature(key, webhook_id, timestamp, body)
        for one in given:
            fits |= hmac.compare_digest(one, expected)
    return webhook_id if fits else None


def _said(headers: Mapping[str, str]) -> dict[str, str]:
    """Pick the headers of a message. Two of a name could be read as either, and say nothing."""
    said: dict[str, str] = {}
    for header, value in headers.items():
        if (name := header.lower()) in SAID:
            said[name] = value if name not in said and len(value) <= HEADER_MAX else ""
    return said


def _signatures(header: str) -> list[str]:
    """Pick the signatures of the form that we know, and skip all others."""
    parts = header.split(" ")
    if len(parts) > SIGNATURES_MAX:
        return []
    return [match[1] for part in parts if (match := SIGNATURE.fullmatch(part))]
