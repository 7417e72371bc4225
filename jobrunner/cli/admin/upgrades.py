"""Jobs under way and the declarations installed now, compared for a person before a start."""

from typing import TYPE_CHECKING, Any

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.options import Listing
from jobrunner.cli.frame.paging import paged
from jobrunner.cli.frame.service import part, service
from jobrunner.config.settings import Config
from jobrunner.core.features.upgrades.forecasts import Forecast
from jobrunner.core.features.upgrades.upgrades import SHORT
from jobrunner.store.features.upgrades.upgrades import stored_places

if TYPE_CHECKING:
    from jobrunner.stages import Registry

PATIENCE_S = 30
COLUMNS = ("id", "workflow", "version", "status", "dry_run", "moved", "stay", "by", "created_at")


def forecasts(config: Config, registry: "Registry") -> dict[str, Forecast]:
    """By workflow, what becomes of its jobs with the next start; of workflows with jobs alone, be
    they installed or not.

    Raises: Misconfigured
    """
    stored = stored_places(config.store.path)
    registry.remember(stored.declarations)
    names = {place.workflow for place in stored.places}
    return {name: registry.forecast(name, stored.places) for name in sorted(names)}


def of_one_version(registry: "Registry", name: str) -> list[str]:
    """Warn of a declaration that was changed and kept its version, once older ones are known."""
    digests = [digest[:SHORT] for digest in registry.namesakes(name)]
    text = "a stored declaration has the same version; give this one another"
    return [f"{text} ({', '.join(digests)})"] if digests else []


async def move(name: str, reason: str | None, dry_run: bool, listing: Listing) -> int:
    """Order it, and tell how far it is until it is over."""
    body: dict[str, Any] = {"workflow": name, "dry_run": dry_run}
    body |= {"reason": reason} if reason else {}
    async with service(listing) as running:
        told = await running.post("/admin/upgrades", body)
        while told["status"] == "running":
            path = f"/admin/upgrades/{part(told['id'])}"
            told = await running.get(path, {"wait": PATIENCE_S})
    _print(told, listing)
    return 0 if told["status"] == "done" and not told["stay"] else 1


async def orders(limit: int | None, since: str | None, listing: Listing) -> None:
    """Print those that there were."""
    async with service(listing) as running:
        found = await paged(running, "/admin/upgrades", [], limit, since)
    printing.rows(found, COLUMNS, listing)


def _print(told: dict[str, Any], listing: Listing) -> None:
    if listing.output != "table":
        printing.record(told, listing)
        return
    verb = "would be moved" if told["dry_run"] else "were moved"
    count, version = told["moved"], f"version {told['version']} ({told['digest'][:SHORT]})"
    print(f"{told['workflow']}: {told['status']}: {count} jobs {verb} to {version}")
    for stay in told["stays"]:
        print(f"  {stay['jobs']} stay: {stay['why']} (as {', '.join(stay['examples'])})")
