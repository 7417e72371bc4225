"""Webhooks that nobody may take for genuine, as data: headers and a body, each with a name.

Everything that is wrong in a list here is wrong in one way only, and signed as well as it can be
by somebody who does not know the secret, or who has got hold of a genuine webhook and changes it.
"""

import base64
import hashlib
import random
import time
from collections.abc import Iterator

from tests.http.posting import KEY, STRANGER, Headers, mac, saying, signed

Hostile = tuple[str, Headers, bytes]
BODY = saying("awaited", {"url": "https://evil.example"})


def listed() -> list[Hostile]:
    """All of them. Whatever they say, an attempt awaits it."""
    now = int(time.time())
    return [
        *_timestamps(now),
        *_ids(now),
        *_signatures(now),
        *_keys(now),
        *_bodies(now),
        *_headers(now),
    ]


def made(seed: int) -> Hostile:
    """One of as many as you like: genuine, but for what is drawn from the seed."""
    draw = random.Random(seed)
    now = int(time.time())
    webhook_id, timestamp = f"w-{draw.randrange(10)}", str(now + draw.randrange(-200, 200))
    good = mac(webhook_id, timestamp, BODY)
    body, signature = BODY, f"v1,{good}"
    match draw.randrange(8):
        case 0:
            place = draw.randrange(len(body))
            body = _flipped(body, place, draw.randrange(8))
        case 1:
            place = draw.randrange(43)
            letter = draw.choice([one for one in ALPHABET if one != good[place]])
            signature = f"v1,{good[:place]}{letter}{good[place + 1 :]}"
        case 2:
            webhook_id += draw.choice("x.0-_")
        case 3:
            timestamp = str(int(timestamp) + draw.choice((-1, 1)))
        case 4:
            signature = "v1," + base64.b64encode(draw.randbytes(32)).decode()
        case 5:
            late = now + draw.choice((-1, 1)) * draw.randrange(310, 10**9)
            timestamp = str(abs(late))
            signature = f"v1,{mac(webhook_id, timestamp, BODY)}"
        case 6:
            cut = draw.randrange(len(good))
            signature = draw.choice((f"v1,{good[:cut]}", f"v1{good}", good, f"v0,{good}"))
        case _:
            letters = [chr(draw.randrange(0x21, 0x7F)) for _ in range(draw.randrange(1, 200))]
            signature = "".join(letters)
    headers = [
        ("webhook-id", webhook_id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", signature),
    ]
    return f"seed {seed}", headers, body


def _flipped(body: bytes, place: int, bit: int) -> bytes:
    return body[:place] + bytes([body[place] ^ (1 << bit)]) + body[place + 1 :]


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _timestamps(now: int) -> Iterator[Hostile]:
    """Signed with the secret itself: only the time is wrong."""
    far = [now + sign * gap for gap in FAR for sign in (1, -1) if now + sign * gap >= 0]
    shapes = [shape.replace("NOW", str(now)) for shape in SHAPES]
    for timestamp in [*map(str, far), *shapes]:
        yield f"timestamp {timestamp!r}", signed("w-1", BODY, at=timestamp), BODY
        plain = [*signed("w-1", BODY, at=str(now))]
        plain[1] = ("webhook-timestamp", timestamp)
        yield f"timestamp {timestamp!r} beside a good signature", plain, BODY


FAR = [302, 310, 360, 600, 3_600, 86_400, 30 * 86_400, 10**9, 10**10, 10**11]
FAR += [301 + 7 * step for step in range(1, 20)]
SHAPES = [
    "", "0", "-1", "-0", "+NOW", "-NOW", "NOW.0", "NOW.9", "NOWe0", "NOW_000", "1_674_087_231",
    "0xNOW", "0b1", "NOW ms", "NOW,NOW", "NOW;", "NOW\tNOW", "nan", "inf", "-inf", "Infinity",
    "NaN",
    "1e9", "null", "None", "true", "[]", "{}", "''", '"NOW"', "2026-01-01T00:00:00Z", "now",
    "9" * 13, "9" * 100, "9" * 1000, "9" * 4000, "NOW" * 50, "0" * 13, "00000000000000NOW",
    "١٢٣٤٥٦٧٨٩٠", "１６７４０８７２３１", "²³", "Ⅻ", "NOWé", "NOW\u00a0", "%30", "NOW%00", "NOW/1",
    "1/1", "NOWL", "NOWj", "0o17", "NOW000", "NOW123456",
]  # fmt: skip


def _ids(now: int) -> Iterator[Hostile]:
    """Signed with the secret itself, where the id is no id; or genuine under another id."""
    for webhook_id in IDS:
        yield f"id {webhook_id[:40]!r}", signed(webhook_id, BODY), BODY
    for webhook_id in (*IDS, "w-2", "W-1", "w-1 ", "w-1.", f"w-1.{now}", "w", "w-11", "w-01", "1"):
        moved = signed("w-1", BODY)
        moved[0] = ("webhook-id", webhook_id if webhook_id.strip() != "w-1" else "w-1x")
        yield f"a good signature under the id {webhook_id[:40]!r}", moved, BODY


IDS = [
    "", "a b", "a\tb", "ä", "\u202e", "w\u00a01", "日本", "x" * 256, "x" * 300, "x" * 1000,
    "x" * 2049,
    "x" * 5000, "w 1 2 3", "é" * 10, "w-1 w-1", "' OR 1=1 --",
    "w-1'; DROP TABLE webhooks; --x y", "<script> </script>", "../../etc/passwd ", "\u0416",
    "\u00ff",
]  # fmt: skip
IDS = [one for one in IDS if one.strip() == one] + [f"{one.strip()} z" for one in IDS[-3:]]


def _signatures(now: int) -> Iterator[Hostile]:
    """Where the signature ought to be stands something else."""
    good = mac("w-1", str(now), BODY)
    raw = base64.b64decode(good)
    own = mac("w-1", str(now), BODY, STRANGER)
    forms = [
        "", "v1", "v1,", "v1,,", ",", "v1, ", good, f"v1 {good}", f"v1;{good}", f"v1={good}",
        f"V1,{good}", f"v01,{good}", f"v2,{good}", f"v1a,{good}", f"v0,{good}", f"v1,,{good}",
        f"v1,{good},", f"v1,{good}=", f"v1,={good}", f"v1,{good[:-1]}", f"v1,{good.rstrip('=')}",
        f"v1,{good[1:]}", f"v1,{good}A", f"v1,A{good}", f"v1,{good.lower()}", f"v1,{good.upper()}",
        f"v1,{good[::-1]}", f"v1,{good.swapcase()}", f"v1,{good}{good}", f"v1,{raw.hex()}",
        f"v1,{good},v1,{good}", f"v1,{good};v1,{good}", f"v1,{good}\tv1,{good}", f"[{good}]",
        f"v1,{base64.b64encode(raw[:16]).decode()}", f"v1,{base64.b64encode(raw + raw).decode()}",
        f"v1,{base64.b64encode(b'').decode()}", f"v1,{base64.b32encode(raw).decode()}",
        f"v1,{good[:20]} {good[20:]}", f"v1,{good[:20]}\u00a0{good[20:]}", f"v1,{good[:20]}%2B",
        f"'v1,{good}'", f'"v1,{good}"', f"(v1,{good})", f"v1,{good}\u00e9", f"\u00e9v1,{good}",
        f"sha256={raw.hex()}", f"t={now},v1={raw.hex()}", f"Bearer {good}", "null", "true", "*",
        "v1,*", "v1,null", "v1," + "=" * 44, "v1," + "A" * 43 + "=", "v1," + "A" * 44, "v1,é",
        "v1," + "/" * 43 + "=", "v1," + "+" * 43 + "=", "v1," + "-" * 43 + "=", "v1," + "_" * 44,
        "v1," + "A" * 1000, "A" * 4000, "v1," * 100, " ".join(["v1,"] * 10), ", " * 50,
        " ".join([f"v1,{own}"] * 10), " ".join([f"v1,{own}"] * 11), f"v1,{own} v1a,{good}",
        " ".join([f"v1,{own}"] * 10 + [f"v1,{good}"]), " ".join(["x"] * 10 + [f"v1,{good}"]),
        " ".join(["v1,x"] * 20 + [f"v1,{good}"]), " " + " ".join(["x"] * 12) + f" v1,{good}",
        "x" * 3000 + f" v1,{good}", f"v1,{good} " + "x" * 3000, f"v1,{own}", "v1," + "１" * 44,
        f"v1,{good[:-1]}\uff1d", f"v1，{good}", "v\u0661," + good, "١" * 47,
    ]  # fmt: skip
    for number, form in enumerate(forms):
        headers = signed("w-1", BODY, at=str(now))
        headers[2] = ("webhook-signature", form)
        yield f"signature {number} {form[:50]!r}", headers, BODY
    for place in range(43):
        letter = ALPHABET[(ALPHABET.index(good[place]) + 1 + place) % 64]
        if letter == good[place]:
            letter = ALPHABET[(ALPHABET.index(letter) + 7) % 64]
        headers = signed("w-1", BODY, at=str(now))
        headers[2] = ("webhook-signature", f"v1,{good[:place]}{letter}{good[place + 1 :]}")
        yield f"letter {place} of the signature is another", headers, BODY


def _keys(now: int) -> Iterator[Hostile]:
    """Signed well, with a secret that is not ours. (Ours with zeros at its end would be the same
    one: HMAC fills keys up with them.)"""
    text = b"whsec_" + base64.b64encode(KEY)
    near = [
        b"", b"\0", KEY[:-1], KEY + KEY, KEY[:24], KEY.upper(), text, text[6:],
        base64.b64encode(text), KEY.hex().encode(), b"whsec_", b"postman", b"secret", b"password",
        b"LISTENER_SECRET", hashlib.sha256(KEY).digest(), hashlib.sha256(text).digest(), STRANGER,
        b"o" * 32, b"0" * 32, bytes(32), b"\xff" * 32, bytes(64), b"None", b"null", b"undefined",
    ]  # fmt: skip
    near += [KEY[:place] + b"x" + KEY[place + 1 :] for place in range(32)]
    for number, key in enumerate(near):
        yield f"secret {number}", signed("w-1", BODY, key=key), BODY


def _bodies(now: int) -> Iterator[Hostile]:
    """A genuine signature with another body."""
    headers = signed("w-1", BODY, at=str(now))
    others = [
        b"", b" ", b"\0", b"{}", b"[]", b"null", b"0", b'""', b"{", b"}", b"nan", BODY + b" ",
        BODY + b"\n", BODY + b"\0", b" " + BODY, b"\xef\xbb\xbf" + BODY, BODY[:-1], BODY[1:],
        BODY.upper(), BODY * 2, BODY[::-1], BODY.replace(b" ", b""), BODY.replace(b": ", b":"),
        BODY.decode().encode("utf-16"), BODY.decode().encode("utf-32"), b"." + BODY,
        f"w-1.{now}.".encode() + BODY, base64.b64encode(BODY), BODY.hex().encode(), b"\xff\xfe",
        b"[" * 10_000, b'{"a":' * 5_000, b"9" * 10_000, b"\xf0\x9f\x92\xa9" * 100, b"A" * 200_000,
        b"id=awaited&status=done", b"<xml/>", b"--x\r\n\r\n--x--", b"0\r\n\r\n", b"\r\n",
        BODY.replace(b"awaited", b"Awaited"), BODY.replace(b"done", b"d\\u006fne"),
    ]  # fmt: skip
    for number, body in enumerate(others):
        yield f"body {number}", headers, body
    for place in range(len(BODY)):
        changed = BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :]
        yield f"byte {place} of the body is another", headers, changed


def _headers(now: int) -> Iterator[Hostile]:
    """Headers that are missing, there twice, or of other names."""
    good = signed("w-1", BODY, at=str(now))
    yield "no header at all", [], BODY
    for place in range(3):
        name, value = good[place]
        rest = [pair for pair in good if pair[0] != name]
        yield f"without {name}", rest, BODY
        yield f"{name} twice", [*good, (name, value)], BODY
        yield f"{name} twice, empty first", [(name, ""), *good], BODY
        yield f"{name} twice, another first", [(name, "x"), *good], BODY
        for other in ("svix", "x-webhook", "x", "http-webhook", "webhook_"):
            yield f"{other} for {name}", [*rest, (name.replace("webhook", other), value)], BODY
        yield f"{name} with underscore", [*rest, (name.replace("-", "_"), value)], BODY
        for garbage in ("", "x", "null", "\u00e9", "x" * 2_100, "x" * 6_000):
            yield f"{name} is {garbage[:9]!r}", [*rest, (name, garbage)], BODY
