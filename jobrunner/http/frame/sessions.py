"""The cookie of a session, and the proof that a page of ours sent it.

A browser adds a cookie by itself, whoever makes it ask. So with a cookie nothing is changed unless
the request carries a header of ours: another site's page cannot add it without asking first, and
that is never granted (``cors`` does not list it, and never lets cookies in). A browser that says
which site asks must say that it is ours.
"""

from collections.abc import Mapping

from jobrunner.errors import Refused

COOKIE = "jobrunner_session"
PROOF = "X-Jobrunner-Page"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
SESSION_LENGTH_MAX = 512


def session_in(headers: Mapping[str, str]) -> str | None:
    """Read the secret of a session; None without one."""
    for pair in headers.get("Cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE and 0 < len(value) <= SESSION_LENGTH_MAX:
            return value
    return None


def session_for(method: str, headers: Mapping[str, str]) -> str | None:
    """The session that a request is made in; none counts beside a token.

    Raises: Refused FORBIDDEN, for a change that no page of ours has asked for."""
    if "Authorization" in headers:
        return None
    session = session_in(headers)
    if session is not None and method not in SAFE:
        check_proof(headers)
    return session


def check_proof(headers: Mapping[str, str]) -> None:
    """Raises: Refused FORBIDDEN."""
    if PROOF not in headers:
        detail = f"a session changes nothing without the header {PROOF}; programs send a token"
        raise Refused("FORBIDDEN", detail)
    site = headers.get("Sec-Fetch-Site", "same-origin")
    if site != "same-origin":
        detail = f"Sec-Fetch-Site is {site[:40]!r}: only pages of this service act in a session"
        raise Refused("FORBIDDEN", detail)


def cookie(value: str, base_path: str, public_url: str, lifetime_s: int) -> str:
    """Tell the browser what to send from then on; a lifetime of 0 makes it forget."""
    secure = "; Secure" if public_url.startswith("https:") else ""
    return (
        f"{COOKIE}={value}; Path={base_path}/; Max-Age={lifetime_s}; HttpOnly; "
        f"SameSite=Strict{secure}"
    )
