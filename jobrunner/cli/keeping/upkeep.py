"""``db info``, ``db prune``, ``db compact``: the file looks after itself, and these do it now."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.file import OPERATOR, file_or_none
from jobrunner.cli.frame.installed import installed
from jobrunner.cli.frame.options import Asking, Flag, Form, Listing
from jobrunner.cli.frame.service import service
from jobrunner.errors import Misconfigured

if TYPE_CHECKING:
    from jobrunner.actors.keeping.retention import Retention
    from jobrunner.store.store import Store

FOR_EVER_S = float("inf")
COUNTED = ("jobs", "files", "keys", "audit", "dead_letters", "firings", "batches")


async def info(*, listing: Listing = Listing()) -> None:
    """Show what is in the file, what takes its room, and what retention would remove."""
    async with _file(listing) as store:
        if store is not None:
            found = await _described(store, listing)
        else:
            async with service(listing) as running:
                found = await running.get("/admin/db")
    if listing.output != "table":
        printing.record(found, listing)
    else:
        _print_info(found, listing)


async def prune(*, dry_run: Flag = False, listing: Listing = Listing()) -> None:
    """Remove now what is older than the settings keep it.

    Parameters
    ----------
    dry_run
        Only count what would be removed.
    """
    async with _file(listing) as store:
        if store is not None:
            found = await _pruned(store, listing, dry_run)
        else:
            async with service(listing) as running:
                found = await running.post("/admin/db/prune", {"dry_run": dry_run})
                while not found["done"] and not dry_run:
                    more = await running.post("/admin/db/prune", {})
                    found = _added(found, more)
    if listing.output != "table":
        printing.record(found, listing)
    else:
        _print_pruned(found)


async def compact(*, listing: Listing = Listing()) -> None:
    """Give unused room in the file back to the disk.

    With the service down the file is written anew without any gap, which takes as much room again
    for that time; the running service gives back the unused pages, a few at a time.
    """
    async with _file(listing) as store:
        if store is not None:
            before = os.path.getsize(store.path)
            await store.keeper.compact()
            found = {"before_bytes": before, "file_bytes": os.path.getsize(store.path)}
        else:
            async with service(listing) as running:
                found = await running.post("/admin/db/compact", {})
                while not found["done"]:
                    found = await running.post("/admin/db/compact", {})
    printing.record(found, listing)


@asynccontextmanager
async def _file(asking: Asking) -> AsyncIterator["Store | None"]:
    """The file that is there, or None while the service has it.

    Raises: Misconfigured, where there is none: whoever looks makes none.
    """
    path = asking.load().store.path
    if asking.url is None and not os.path.exists(path):
        raise Misconfigured(f"{path} does not exist: [store] path says where it should be")
    async with file_or_none(asking) as store:
        yield store


async def _described(store: "Store", asking: Asking) -> Any:
    from jobrunner.http.frame.views import encode
    from jobrunner.http.routes.admin.retention import prune_view
    from jobrunner.http.routes.admin.upkeep import file_view

    retention = await _retention(store, asking)
    foreseen = prune_view(await retention.foresee(), dry_run=True)
    return printing.read(encode(file_view(await store.keeper.info(), foreseen)))


async def _pruned(store: "Store", asking: Asking, dry_run: bool) -> Any:
    from jobrunner.http.frame.views import encode
    from jobrunner.http.routes.admin.retention import prune_view

    retention = await _retention(store, asking)
    taken = await (retention.foresee() if dry_run else retention.order(OPERATOR, FOR_EVER_S))
    return printing.read(encode(prune_view(taken, dry_run=dry_run)))


async def _retention(store: "Store", asking: Asking) -> "Retention":
    """That of the service, in a world in which nothing else moves."""
    from jobrunner.actors.keeping.retention import Retention
    from jobrunner.actors.shared import World
    from jobrunner.config.retention import retention_terms
    from jobrunner.ports import system_ports

    config = asking.load()
    registry = installed(config)
    registry.remember(await store.reader.declarations())
    ports = system_ports()
    basics = ports.clock, ports.ids, _complain, ports.children, config.store.assets
    terms = retention_terms(config, registry.loaded(), registry.refused["workflows"])
    return Retention(World(store, registry, *basics), terms)


def _complain(event: str, level: str = "info", **fields: Any) -> None:
    if level != "info":
        print(event, fields.get("detail", ""), file=sys.stderr)


def _added(found: Any, more: Any) -> Any:
    """Add two answers."""
    jobs = {(one["workflow"], one["status"]): one["jobs"] for one in found["jobs"]}
    for one in more["jobs"]:
        place = one["workflow"], one["status"]
        jobs[place] = jobs.get(place, 0) + one["jobs"]
    summed = {kind: found[kind] + more[kind] for kind in COUNTED if kind != "jobs"}
    rows = [{"workflow": of, "status": status, "jobs": n} for (of, status), n in jobs.items()]
    return more | summed | {"jobs": rows}


def _print_info(found: Any, form: Form) -> None:
    tables, retention = found.pop("tables"), found.pop("retention")
    printing.record(found, form)
    print()
    printing.rows(tables, ("name", "bytes"), form)
    print()
    _print_pruned(retention)


def _print_pruned(found: Any) -> None:
    verb = "would go" if found["dry_run"] else "went"
    rows = [{**one, "what": "jobs", "status": one["status"] or "(beyond keep)",
             "count": one["jobs"]} for one in found["jobs"]]  # fmt: skip
    rows += [{"what": kind, "count": found[kind]} for kind in COUNTED[1:] if found[kind]]
    if rows:
        printing.rows(rows, ("what", "workflow", "status", "count"))
    print(f"{sum(row['count'] for row in rows)} {verb}")
