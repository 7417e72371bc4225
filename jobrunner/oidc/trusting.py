"""From the settings to a reader of tokens that is kept supplied with keys."""

from collections.abc import Callable
from functools import partial

from jobrunner.config.settings import OidcSection
from jobrunner.oidc.bearers import Bearers, Trust
from jobrunner.oidc.keyset import Fetch, KeySet, Log
from jobrunner.outgoing.calls import Exchange, Patience
from jobrunner.outgoing.gate import Outlets
from jobrunner.ports import Children, Clock, Files

ANSWER_MAX = 1024**2
PATIENCE = Patience(connect_s=3, idle_s=5, total_s=8)


def trusting(
    settings: OidcSection,
    fetch: Fetch,
    clock: Clock,
    log: Log,
    changed: Callable[[], None],
) -> Bearers:
    """Make the reader; its keys come when somebody watches over them."""
    keys = KeySet(settings.issuer, settings.keys, settings.refresh, fetch, clock, log, changed)
    trust = Trust(
        settings.issuer,
        settings.audience,
        settings.user_claim,
        settings.role_claim,
        settings.roles,
        settings.leeway,
    )
    return Bearers(trust, keys, clock)


def fetching(settings: OidcSection, outlets: Outlets, files: Files, children: Children) -> Fetch:
    """Fetch by the guarded way out, which is open to the addresses that the operator wrote, or read
    a file."""
    ours = {"issuer": settings.issuer, "keys": settings.keys}

    async def fetch(place: str) -> bytes:
        if not place.startswith(("http://", "https://")):
            return await children.in_thread(partial(files.read, place))
        asked = Exchange("GET", place, max_size=ANSWER_MAX, patience=PATIENCE)
        return (await outlets.exchange(asked, ours)).body

    return fetch
