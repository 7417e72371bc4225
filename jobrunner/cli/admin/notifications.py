"""``delivery`` and ``notify``: what was told to whom, and the secrets that it is signed with."""

import os
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import App, CycloptsError

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.options import Ids, Listing, Where, spelled_out
from jobrunner.cli.frame.paging import Limit, Since, paged
from jobrunner.cli.frame.prefixes import whole
from jobrunner.cli.frame.service import part, service
from jobrunner.cli.frame.system import ids
from jobrunner.ports import SystemFiles

if TYPE_CHECKING:
    from jobrunner.actors.features.notifications.secrets import KeyFile

app = App(name="delivery", help="Notifications, and how they were delivered.")
notify = App(name="notify", help="The secrets that notifications are signed with.")

COLUMNS = ("id", "type", "status", "created_at", "next_try_at", "tried", "url", "last")
ENDPOINT_COLUMNS = ("id", "owner", "url", "failing_since", "failures", "disabled_at", "due")
Status = Literal["due", "delivered", "failed", "disabled"]


@app.command(
    name="list",
    help_epilogue=examples(
        "jobrunner delivery list --status failed --since 1d",
        "jobrunner delivery list --job 01a1f22d-61f8",
    ),
)
async def list_(
    *,
    status: Status | None = None,
    job: str | None = None,
    endpoint: int | None = None,
    limit: Limit = None,
    since: Since = None,
    listing: Listing = Listing(),
) -> None:
    """List deliveries of all jobs, newest first; for admins.

    Parameters
    ----------
    status
        Only those with this one.
    job
        Only those about this job; the beginning of its id is enough.
    endpoint
        Only those to this endpoint, by its number.
    """
    async with service(listing) as running:
        job_id = await whole(running, job) if job else None
        query = [("status", status), ("job_id", job_id), ("endpoint", endpoint)]
        found = await paged(running, "/admin/deliveries", query, limit, since)
    printing.rows([_told(row) for row in found], COLUMNS, listing)


async def of_job(
    job_id: str,
    /,
    *,
    status: Status | None = None,
    limit: Limit = None,
    since: Since = None,
    listing: Listing = Listing(),
) -> None:
    """List the notifications about a job, newest first.

    Parameters
    ----------
    status
        Only deliveries with this one.
    """
    async with service(listing) as running:
        path = f"/jobs/{part(await whole(running, job_id))}/deliveries"
        found = await paged(running, path, [("status", status)], limit, since)
    printing.rows([_told(row) for row in found], COLUMNS, listing)


@app.command(
    help_epilogue=examples(
        "jobrunner delivery list --status failed -o ids | jobrunner delivery redeliver -"
    )
)
async def redeliver(
    deliveries: Ids, /, *, job: str | None = None, listing: Listing = Listing()
) -> None:
    """Deliver again, under the same id; `-` reads ids from stdin.

    Parameters
    ----------
    job
        The job that they are about, where who asks is its owner and no admin.
    """
    async with service(listing) as running:
        above = f"/jobs/{part(await whole(running, job))}" if job else "/admin"
        for one in spelled_out(deliveries):
            found = await running.post(f"{above}/deliveries/{part(one)}/redeliver", {})
            printing.record(found, listing)


@app.command(help_epilogue=examples("jobrunner delivery endpoints --all"))
async def endpoints(
    *,
    all: bool = False,
    limit: Limit = None,
    listing: Listing = Listing(),
) -> None:
    """List the endpoints that fail or are disabled.

    Parameters
    ----------
    all
        Also those without failures.
    """
    async with service(listing) as running:
        query = [("all", "true" if all else None)]
        found = await paged(running, "/admin/endpoints", query, limit)
    printing.rows(found, ENDPOINT_COLUMNS, listing)


@app.command(help_epilogue=examples("jobrunner delivery enable 3"))
async def enable(endpoint: int, /, *, listing: Listing = Listing()) -> None:
    """Deliver to a disabled endpoint again, including what was held back."""
    async with service(listing) as running:
        found = await running.post(f"/admin/endpoints/{endpoint}/enable", {})
    printing.record(found, listing)


@notify.command(help_epilogue=examples("jobrunner notify own"))
async def own(*, listing: Listing = Listing()) -> None:
    """Print what one's own receivers verify with, the newest first; the running service knows."""
    async with service(listing) as running:
        found = (await running.get("/notifications/secret"))["secrets"]
    printing.rows([{"secret": one} for one in found], ("secret",), listing, key="secret")


@notify.command(
    help_epilogue=examples(
        "jobrunner notify secret --user ann", "jobrunner notify secret --workflow hello"
    )
)
def secret(*, user: str | None = None, workflow: str | None = None, where: Where = Where()) -> None:
    """Print the secrets that a receiver verifies with, newest first.

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


@notify.command(help_epilogue=examples("jobrunner notify rotate"))
def rotate(*, where: Where = Where()) -> None:
    """Sign with a new secret too, at once; the one before counts until the next rotation."""
    if where.load().notify.secrets_env:
        raise CycloptsError(msg="the secrets are in the variables of [notify] secrets_env")
    _key_file(where).rotate(ids.secret())


def _told(delivery: dict[str, Any]) -> dict[str, Any]:
    """With how often it was tried, and what the last try brought."""
    tries = delivery["tries"]
    last = (tries[-1]["error"] or tries[-1]["http_status"]) if tries else None
    return delivery | {"tried": len(tries), "last": last}


def _key_file(where: Where) -> "KeyFile":
    from jobrunner.actors.features.notifications.secrets import key_file_beside

    file = key_file_beside(where.load().store.path, SystemFiles())
    if os.path.isdir(os.path.dirname(file.path)):
        file.make(ids.secret())
    return file
