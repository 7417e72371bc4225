"""``schedule``: jobs on a timetable, in the running service; for admins."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from jobrunner.cli.commands import Reason
from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.options import (
    Flag,
    Listing,
    Many,
    moment,
    pairs,
    parameters,
    positive,
    seconds,
)
from jobrunner.cli.frame.paging import Limit, Since, paged
from jobrunner.cli.frame.service import part, service
from jobrunner.cli.frame.system import clock
from jobrunner.core.features.schedules.schedules import CatchUp, Overlap

app = App(name="schedule", help="Jobs on a timetable, in the running service; for admins.")

COLUMNS = ("name", "state", "workflow", "when", "next_at", "in_zone", "failed_at", "owner")
NEXT = ("at", "local", "fires_at")
FIRINGS = ("moment_at", "outcome", "how", "count", "job_id", "error_code", "detail")


@Parameter(name="*")
@dataclass(frozen=True)
class Times:
    """When it fires, and what becomes of times that are late or meet the job before."""

    cron: str | None = None
    "When: minute, hour, day of month, month, day of week; or @daily and the like."

    every: str | None = None
    "When: every so often, like 10m."

    zone: str | None = None
    "The time zone of --cron, like Europe/Berlin; else UTC."

    overlap: Overlap | None = None
    "What to do while the previous job runs."

    catch_up: str | None = None
    "How late a time may still fire, like 1h."

    catch_up_policy: CatchUp | None = None
    "Of several late times, fire the latest or each."

    jitter: str | None = None
    "Delay each by up to this, like 30s."

    def said(self) -> dict[str, Any]:
        """As the service takes it, durations in seconds."""
        spans = {"every": self.every, "catch_up": self.catch_up, "jitter": self.jitter}
        return asdict(self) | {
            name: seconds(text, f"--{name.replace('_', '-')}") for name, text in spans.items()
        }


@app.command(name="list", help_epilogue=examples("jobrunner schedule list"))
async def list_(*, listing: Listing = Listing()) -> None:
    """List the schedules, each with its next time: by this machine's clock, and by its own."""
    async with service(listing) as running:
        found = (await running.get("/admin/schedules"))["schedules"]
    printing.rows([one | _briefly(one) for one in found], COLUMNS, listing, key="name")


@app.command(help_epilogue=examples("jobrunner schedule show nightly --next 10"))
async def show(
    name: str,
    /,
    *,
    next: Annotated[int, Parameter(validator=positive)] = 5,
    listing: Listing = Listing(),
) -> None:
    """Print a schedule, its next times, and what became of the last ones.

    Parameters
    ----------
    next
        How many of the next times, up to 100.
    """
    async with service(listing) as running:
        found = await running.get(f"/admin/schedules/{part(name)}", {"next": next})
    if listing.output != "table":
        printing.record(found, listing, key="name")
        return
    coming, fired = found.pop("next"), found.pop("firings")
    printing.record(found, listing, key="name")
    print()
    printing.rows(coming, NEXT, listing)
    if fired:
        print()
        printing.rows(list(map(_told, fired)), FIRINGS, listing)


@app.command(help_epilogue=examples("jobrunner schedule firings nightly --since 7d"))
async def firings(
    name: str, /, *, limit: Limit = None, since: Since = None, listing: Listing = Listing()
) -> None:
    """List what became of the times of a schedule, newest first; `-o ids` are those of its jobs."""
    async with service(listing) as running:
        path = f"/admin/schedules/{part(name)}/firings"
        found = await paged(running, path, [], limit, since, at="at")
    made = [one for one in found if one["job_id"]] if listing.output == "ids" else found
    printing.rows(list(map(_told, made)), FIRINGS, listing, key="job_id")


@app.command(
    help_epilogue=examples(
        "jobrunner schedule add nightly hello --user ann --cron @daily --zone Europe/Berlin",
        "jobrunner schedule add often hello --user ann --every 10m --jitter 30s --overlap queue",
    )
)
async def add(
    name: str,
    workflow: str,
    /,
    *,
    user: str,
    times: Times = Times(),
    job_type: Annotated[str | None, Parameter(alias="--type")] = None,
    params: str | None = None,
    param: Many = None,
    label: Many = None,
    priority: int = 0,
    notify_url: str | None = None,
    replace: Flag = False,
    listing: Listing = Listing(),
) -> None:
    """Make a schedule, which begins now and survives restarts.

    Parameters
    ----------
    user
        Who owns and pays for the jobs.
    params
        The parameters as a JSON object, `@FILE`, or `@-` for stdin.
    param
        A parameter as NAME=VALUE; repeat for more.
    label
        NAME=VALUE; repeat for more.
    replace
        Replace the schedule of this name.
    """
    given = {"job_type": job_type, "notify_url": notify_url, **times.said()}
    body = {key: value for key, value in given.items() if value is not None}
    body |= {"workflow": workflow, "user": user, "priority": priority}
    body |= {"params": parameters(params, param or ()), "labels": pairs(label or ())}
    async with service(listing) as running:
        if replace:
            told = await running.ask("PUT", f"/admin/schedules/{part(name)}", body=body)
        else:
            told = await running.post("/admin/schedules", {"name": name, **body})
    printing.record(told | _briefly(told), listing, key="name")


@app.command(help_epilogue=examples("jobrunner schedule remove nightly"))
async def remove(name: str, /, *, listing: Listing = Listing()) -> None:
    """Delete a schedule that was made at run time; its jobs stay."""
    async with service(listing) as running:
        await running.ask("DELETE", f"/admin/schedules/{part(name)}")


@app.command(help_epilogue=examples("jobrunner schedule pause nightly --reason 'until it is paid'"))
async def pause(name: str, /, *, reason: Reason = None, listing: Listing = Listing()) -> None:
    """Let nothing of a schedule fire until it is resumed."""
    await _tell(name, "pause", {} if reason is None else {"reason": reason}, listing)


@app.command(help_epilogue=examples("jobrunner schedule resume nightly"))
async def resume(name: str, /, *, reason: Reason = None, listing: Listing = Listing()) -> None:
    """Let a paused schedule go on from now; missed times are not made up for."""
    await _tell(name, "resume", {} if reason is None else {"reason": reason}, listing)


@app.command(help_epilogue=examples("jobrunner schedule trigger nightly -o ids"))
async def trigger(
    name: str,
    /,
    *,
    key: str | None = None,
    overlap: Overlap | None = None,
    listing: Listing = Listing(),
) -> None:
    """Make a job of a schedule now, also while it is paused; `-o ids` is the job's.

    Parameters
    ----------
    key
        The idempotency key: the same key again is the same job.
    overlap
        What to do while its last job runs; else as the schedule says.
    """
    body = {"idempotency_key": key, "overlap": overlap}
    said = {name: value for name, value in body.items() if value is not None}
    async with service(listing) as running:
        told = await running.post(f"/admin/schedules/{part(name)}/trigger", said)
    printing.record(told, listing, key="job_id")


@app.command(
    help_epilogue=examples("jobrunner schedule backfill nightly --from 7d --to 1h --dry-run")
)
async def backfill(
    name: str,
    /,
    *,
    from_: Annotated[str, Parameter(name="--from")],
    to: str,
    dry_run: Flag = False,
    listing: Listing = Listing(),
) -> int:
    """Make the missing jobs of past times; run it again if it was cut off.

    Parameters
    ----------
    from_
        From when: 7d ago, 2026-11-19, or 2026-11-19T08:30.
    to
        Until when, in the same forms.
    dry_run
        Only say which times there are.
    """
    now = clock.now()
    body = {"from": moment(from_, now), "to": moment(to, now), "dry_run": dry_run}
    async with service(listing) as running:
        told = await running.post(f"/admin/schedules/{part(name)}/backfill", body)
    if listing.output == "json":
        printing.json(told)
    else:
        made = [one for one in told["moments"] if one["job_id"]]
        shown = made if listing.output == "ids" else told["moments"]
        printing.rows([_told(one) for one in shown], FIRINGS, listing, key="job_id")
    return 1 if told["refused"] else 0


async def _tell(name: str, verb: str, body: dict[str, Any], listing: Listing) -> None:
    async with service(listing) as running:
        told = await running.post(f"/admin/schedules/{part(name)}/{verb}", body)
    printing.record(told | _briefly(told), listing, key="name")


def _briefly(one: dict[str, Any]) -> dict[str, Any]:
    """When it comes, and next: an instant, and the same by the clock of its zone."""
    coming = one["next"][0] if one["next"] and not one["paused"] else {}
    when = one["cron"] or f"every {one['every']:g} s"
    in_zone = f"{coming['local']} {one['zone']}" if coming else None
    return {"when": when, "next_at": coming.get("fires_at"), "in_zone": in_zone}


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose moment is printed as an instant."""
    return row | {"moment_at": row["moment"]}
