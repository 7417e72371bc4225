"""``delivery`` and ``notify``: what was told to whom, and the secrets that it is signed with."""

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.options import Asking, Ids, Listing, Where, positive, spelled_out
from jobrunner.cli.frame.system import ids
from jobrunner.ports import SystemFiles

if TYPE_CHECKING:
    from jobrunner.actors.features.notifications.secrets import KeyFile

app = App(name="delivery", help="Notifications of the running service, and what became of them.")
notify = App(name="notify", help="The secrets that notifications are signed with.")

COLUMNS = ("id", "type", "status", "created_at", "next_try_at", "tried", "url", "last")
ENDPOINT_COLUMNS = ("id", "owner", "url", "failing_since", "failures", "disabled_at", "due")
Status = Literal["due", "delivered", "failed", "disabled"]


@app.command(name="list")
async def list_(
    *,
    status: Status | None = None,
    job: str | None = None,
    endpoint: int | None = None,
    limit: Annotated[int, Parameter(validator=positive)] = 20,
    listing: Listing = Listing(),
) -> None:
    """List deliveries, newest first.

    Parameters
    ----------
    job
        Only those about this job.
    """
    query = [("status", status), ("job_id", job), ("endpoint", endpoint)]
    found = await _paged("/admin/deliveries", "deliveries", query, limit, listing)
    for row in found:
        tries = row["tries"]
        row["tried"] = len(tries)
        row["last"] = (tries[-1]["error"] or tries[-1]["http_status"]) if tries else None
    printing.rows(found, COLUMNS, listing.output)


@app.command
async def redeliver(deliveries: Ids, /, *, listing: Listing = Listing()) -> None:
    """Tell it again, under the same id; `-` reads ids from stdin."""
    from jobrunner.cli.frame.service import part, service

    async with service(listing) as running:
        for one in spelled_out(deliveries):
            found = await running.post(f"/admin/deliveries/{part(one)}/redeliver", {})
            printing.record(found, listing.output)


@app.command
async def endpoints(
    *,
    all: bool = False,
    limit: Annotated[int, Parameter(validator=positive)] = 20,
    listing: Listing = Listing(),
) -> None:
    """List the endpoints that fail or are disabled.

    Parameters
    ----------
    all
        Also those that are well.
    """
    query = [("all", "true" if all else None)]
    found = await _paged("/admin/endpoints", "endpoints", query, limit, listing)
    printing.rows(found, ENDPOINT_COLUMNS, listing.output)


@app.command
async def enable(endpoint: int, /, *, listing: Listing = Listing()) -> None:
    """Deliver to a disabled endpoint again, also what was held back."""
    from jobrunner.cli.frame.service import service

    async with service(listing) as running:
        found = await running.post(f"/admin/endpoints/{endpoint}/enable", {})
    printing.record(found, listing.output)


@notify.command
def secret(*, user: str | None = None, workflow: str | None = None, where: Where = Where()) -> None:
    """Print what a receiver verifies with, the newest first.

    Parameters
    ----------
    user
        Whose jobs it is told about, by the `notify_url` of the job.
    workflow
        Which workflow's jobs it is told about, by the settings.
    """
    from jobrunner.actors.features.notifications.secrets import seals

    if (user is None) == (workflow is None):
        raise CycloptsError(msg="name one of --user and --workflow: each has a secret of its own")
    config = where.load()
    own = {}
    if workflow is not None and (variable := config.workflow(workflow).notify.secret_env):
        own = {f"workflow:{workflow}": variable}
    known = seals(_key_file(where), config.notify.secrets_env, own, os.environ)
    for line in known.of(user if user is not None else f"workflow:{workflow}"):
        print(line)


@notify.command
def rotate(*, where: Where = Where()) -> None:
    """Sign with a new secret too, at once; the one before counts until the next rotation."""
    if where.load().notify.secrets_env:
        raise CycloptsError(msg="the secrets are in the variables of [notify] secrets_env")
    _key_file(where).rotate(ids.secret())


def _key_file(where: Where) -> "KeyFile":
    from jobrunner.actors.features.notifications.secrets import key_file_beside

    file = key_file_beside(where.load().store.path, SystemFiles())
    if os.path.isdir(os.path.dirname(file.path)):
        file.make(ids.secret())
    return file


async def _paged(
    path: str, name: str, query: list[tuple[str, Any]], limit: int, asking: Asking
) -> list[dict[str, Any]]:
    from jobrunner.cli.frame.service import service

    found: list[dict[str, Any]] = []
    cursor = None
    async with service(asking) as running:
        while len(found) < limit:
            size = min(100, limit - len(found))
            page = await running.get(path, [*query, ("limit", size), ("cursor", cursor)])
            found += page[name]
            cursor = page["next_cursor"]
            if cursor is None:
                break
    return found
