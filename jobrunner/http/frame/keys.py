"""The key under which a caller may send the same thing again."""

from jobrunner.errors import Refused
from jobrunner.http.frame.call import Call
from jobrunner.http.frame.problems import invalid

VISIBLE = range(0x21, 0x7F)


def key_given(call: Call, in_body: str | None, length_max: int = 255) -> str | None:
    """From the header or the body, whichever has it.

    Raises: Refused VALIDATION_ERROR.
    """
    header = call.headers.get("Idempotency-Key")
    if header is not None and in_body is not None and header != in_body:
        raise _bad("the header Idempotency-Key and idempotency_key differ; send one of them")
    key = in_body if header is None else header
    if key is None:
        return None
    if not key.isascii() or not all(byte in VISIBLE for byte in key.encode()):
        raise _bad("idempotency_key: visible ASCII only")
    if not 1 <= len(key) <= length_max:
        raise _bad(f"idempotency_key: 1 to {length_max} characters, not {len(key)}")
    return key


def _bad(detail: str) -> Refused:
    return invalid(detail, ("$.idempotency_key", detail))
