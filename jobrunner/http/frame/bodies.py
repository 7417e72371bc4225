"""Bytes into values, or a refusal that says where it went wrong.

The cheap questions come first (size, type, brackets counted, long numbers searched for), so that a
body of the usual kind is looked at twice by C code and walked by nobody.
"""

import re
from typing import Any, Protocol, TypeVar

import anyio
import msgspec
from aiohttp import web

from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import JSON, Settings
from jobrunner.http.frame.problems import invalid

NESTING_MAX = 64
INTEGER_MAX = 2**53
IDENTITY = "identity"

OUTLINE = bytes.maketrans(b"023456789[", b"111111111{")
LONG_NUMBER = b"1" * 16
STRING = re.compile(rb'(?s)"(?:[^"\\]++|\\.)*+"?')
INTEGER = re.compile(rb"(?<![\d.])-?(\d{16,}+)(?![.eE])")
FRACTION = re.compile(STRING.pattern + rb"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
ONE_KIND = bytes.maketrans(b"[]", b"{}")
WHERE = re.compile(r"(?s)(.*?)(?: - at (?:`key` in )?`\$(.*)`)?\Z")
FIELD = re.compile(r"\AObject (?:missing required|contains unknown) field `(.*)`\Z")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decodes(Protocol[T_co]):
    def decode(self, raw: bytes, /) -> T_co: ...


def taken(request: web.Request, most: int, *, plain: bool) -> bytes:
    """Take a body that is here already: at most so many bytes, and JSON unless it is a plain one.

    Raises: Refused BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE.
    """
    raw = request.content.read_nowait()
    if len(raw) > most:
        raise too_large(most)
    if raw and not plain:
        _check_type(request)
    return raw


async def read(
    request: web.Request, settings: Settings, *, plain: bool = False, most: int
) -> bytes:
    """Read a body that is on its way, under a limit of time too.

    Raises: also Refused BODY_TIMEOUT.
    """
    if (request.content_length or 0) > most:
        raise too_large(most)
    raw, timeout_s = bytearray(), settings.read_timeout_s
    with anyio.move_on_after(timeout_s):
        while data := await request.content.readany():
            raw += data
            if len(raw) > most:
                raise too_large(most)
        if raw and not plain:
            _check_type(request)
        return bytes(raw)
    raise Refused("BODY_TIMEOUT", f"the body did not arrive within {timeout_s:g} s")


def check_coding(request: web.Request) -> None:
    """Before a byte is read: nothing is unpacked here, and nothing packed is kept as if it were
    what it stands for.

    Raises: Refused UNSUPPORTED_MEDIA_TYPE.
    """
    if "Content-Encoding" not in request.headers:
        return
    given = ",".join(request.headers.getall("Content-Encoding"))
    codings = [coding.strip().lower() for coding in given.split(",") if coding.strip()]
    if request.body_exists and any(coding != IDENTITY for coding in codings):
        detail = f"Content-Encoding is {given[:40]!r}; send the body as it is, without one"
        raise Refused("UNSUPPORTED_MEDIA_TYPE", detail, accept_encoding=[IDENTITY])


def decode(raw: bytes, decoder: Decodes[T]) -> T:
    """Strictly as the decoder's struct has it.

    Raises: Refused VALIDATION_ERROR.
    """
    try:
        value = decode_whole(raw, decoder)
    except msgspec.ValidationError as error:
        check_shape(raw)
        raise not_its_struct(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _not_json(raw, error) from None
    check_shape(raw)
    return value


def decode_whole(raw: bytes, decoder: Decodes[T]) -> T:
    """Decode JSON; 7.0 is a whole number, as JSON Schema has it and some clients write it.

    Raises: msgspec.DecodeError, UnicodeDecodeError, RecursionError.
    """
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
            raise
    return decoder.decode(FRACTION.sub(_whole, raw))


def check_shape(raw: bytes) -> None:
    """Raises: Refused, when JSON that did decode nests too deep or counts too high."""
    outline = raw.translate(OUTLINE)  # every digit is a 1, and every bracket that opens a {
    if outline.count(b"{") > NESTING_MAX and _too_deep(raw):
        raise _nests()
    if LONG_NUMBER in outline and _too_big(raw):
        raise invalid("a whole number is beyond ±2^53; send it as text", ("$", "number too big"))


def fault_of(error: msgspec.ValidationError, root: str = "$") -> tuple[str, str]:
    """Say where in the body, seen from ``root``, something is wrong, and what."""
    match = WHERE.match(str(error))
    assert match is not None
    message, path = match[1], root + (match[2] or "")
    named = FIELD.match(message)
    return (f"{path}.{named[1]}" if named else path, message)


def not_its_struct(error: msgspec.ValidationError) -> Refused:
    path, message = fault_of(error)
    return invalid(f"{path}: {message}", (path, message))


def too_large(limit: int) -> Refused:
    return Refused("BODY_TOO_LARGE", f"a body may have {limit} bytes here", max_bytes=limit)


def _check_type(request: web.Request) -> None:
    if request.headers.get("Content-Type") == JSON:
        return
    if request.content_type != JSON:
        raise _unsupported(f"send Content-Type: {JSON}, not {request.content_type!r}")
    if (request.charset or "utf-8").lower() not in ("utf-8", "utf8", "us-ascii"):
        raise _unsupported(f"send JSON in UTF-8, not in {request.charset!r}")


def _unsupported(detail: str) -> Refused:
    return Refused("UNSUPPORTED_MEDIA_TYPE", detail)


def _not_json(raw: bytes, error: Exception) -> Refused:
    if isinstance(error, RecursionError):
        return _nests()
    said = str(error) if isinstance(error, msgspec.DecodeError) else "it is not UTF-8"
    detail = f"the body is not JSON: {said}" if raw else "the body is empty; send a JSON object"
    return invalid(detail, ("$", said))


def _nests() -> Refused:
    detail = f"the body nests deeper than {NESTING_MAX} levels"
    return invalid(detail, ("$", detail))


def _too_deep(raw: bytes) -> bool:
    """Take the innermost brackets away, level by level: what is left was deeper."""
    left = STRING.sub(b"", raw).translate(ONE_KIND, NOT_BRACKETS)
    for _ in range(NESTING_MAX):
        left = left.replace(b"{}", b"")
        if not left:
            return False
    return True


def _whole(match: re.Match[bytes]) -> bytes:
    """A number without its fraction, if that says nothing; all else, texts included, as it is."""
    text = match[0]
    number = 0.5 if text.startswith(b'"') else float(text)
    return b"%d" % number if number.is_integer() and abs(number) <= INTEGER_MAX else text


def _too_big(raw: bytes) -> bool:
    runs = (match[1].lstrip(b"0") for match in INTEGER.finditer(STRING.sub(b'""', raw)))
    return any(len(digits) > 16 or int(digits) > INTEGER_MAX for digits in runs if digits)


def convert(value: Any, kind: type[T], root: str) -> T:
    """Do as ``decode`` does, for values that came as text in a query. ``root`` names the place."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        path, message = fault_of(error, root)
        raise invalid(f"{path}: {message}", (path, message)) from None
