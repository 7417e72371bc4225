"""The address of the service, as its clients need it."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from jobrunner.errors import Misconfigured

URL = "JOBRUNNER_URL"
TOKEN = "JOBRUNNER_TOKEN"  # noqa: S105 - where one is found
HERE = "http://127.0.0.1:8080"


class ServicePlace(Struct, frozen=True):
    """``prefix`` is the path that all others begin with."""

    url: str
    tls: bool
    host: str
    port: int
    prefix: str
    headers: Mapping[str, str]


def place_of(url: str | None, token: str | None, environ: Mapping[str, str]) -> ServicePlace:
    """Raises: Misconfigured, for what is no address."""
    given = (url or environ.get(URL) or HERE).rstrip("/")
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError as error:
        raise Misconfigured(f"{given!r} is no address ({error})") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise Misconfigured(f'{given!r} is no address; it must be like "{HERE}"')
    tls = parts.scheme == "https"
    bearer = token or environ.get(TOKEN)
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    default = 443 if tls else 80
    return ServicePlace(
        given, tls, parts.hostname, port or default, parts.path.rstrip("/"), headers
    )
