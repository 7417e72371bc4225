"""ETag, If-Match, If-None-Match: which state of a job a caller has seen.

A tag is ``"7"``, or ``"7.3"`` after the third report of progress since version 7. What is decided
upon is the version alone, so a cancel never loses to a progress bar.
"""

import re
from typing import Any

from jobrunner.core.job import Snapshot
from jobrunner.http.frame.endpoint import HttpCall
from jobrunner.http.frame.problems import invalid

TAG = re.compile(r'(?:W/)?"(\d{1,16})(?:\.(\d{1,16}))?"')
ANY = "*"
NO_VERSION = 0


def etag(job: Snapshot) -> str:
    return f'"{job.version}.{job.beat}"' if job.beat else f'"{job.version}"'


def expected_version(call: HttpCall, in_body: int | None = None) -> int | None:
    """Read the version that the caller expects, from the header If-Match or the body. A weak tag
    is for what may be a little different, and what is to be changed must be the very same: it
    matches no version, like a stale one.

    Raises: Refused VALIDATION_ERROR when the two differ, or the header is malformed.
    """
    headers: Any = call.headers
    header = ", ".join(headers.getall("If-Match", [ANY]))
    if header.strip() == ANY:
        return in_body
    match = TAG.fullmatch(header.strip())
    if match is None:
        raise _bad(f'If-Match is {header!r}; send one ETag as it was given, like "7", or *')
    version = int(match[1])
    if in_body is not None and in_body != version:
        raise _bad(f"If-Match says version {version} and expected_version says {in_body}")
    return NO_VERSION if match[0].startswith("W/") else version


def seen_before(call: HttpCall) -> list[tuple[int, int]] | None:
    """Version and beat of each tag in If-None-Match; None without one. What is no tag of ours
    matches nothing."""
    header = call.headers.get("If-None-Match")
    if header is None:
        return None
    return [(int(match[1]), int(match[2] or 0)) for match in TAG.finditer(header)]


def matches_any(call: HttpCall) -> bool:
    return call.headers.get("If-None-Match", "").strip() == ANY


def _bad(detail: str) -> Exception:
    return invalid(detail, ("If-Match", detail))
