"""``job watch`` and ``job events``: jobs while they move."""

import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Annotated, Any

from cyclopts import CycloptsError, Parameter

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import Examples, examples
from jobrunner.cli.frame.following import Happened, happenings
from jobrunner.cli.frame.options import Flag, Listing, Many, no_option, positive, spelled_out
from jobrunner.cli.frame.prefixes import whole
from jobrunner.cli.frame.service import RunningService, part, service
from jobrunner.cli.frame.tables import SHORTEST_ID
from jobrunner.cli.frame.turns import turn

WATCH_S = 20
DONE, FAILED, WAITS_FOR_PERSON = 0, 1, 5

Some = Annotated[list[str] | None, Parameter(allow_leading_hyphen=True, validator=no_option)]
Count = Annotated[int | None, Parameter(validator=positive, help="End after so many events.")]


async def watch(
    ids: Some = None,
    /,
    *,
    all: Flag = False,
    listing: Listing = Listing(),
) -> int:
    """Draw the progress of jobs until each settles, ends or waits for a person; then print it.

    It says whose turn it is: the line's, the service's, a worker's outside, a provider's, a
    timer's, a person's. The exit code says how they stand: 0 all are completed, perhaps in part;
    1 one failed, was rejected or canceled, or expired; 5 one waits for a person.

    Parameters
    ----------
    all
        Instead of some jobs, whatever happens to any, without an end: `job events`.
    """
    if all == bool(ids):
        raise CycloptsError(msg="name the jobs to watch, or say --all")
    if all:
        await events(listing=listing)
        return DONE
    codes = set()
    async with service(listing) as running:
        for one in spelled_out(ids or ()):
            job, whose = await _at_rest(running, await whole(running, one), listing)
            printing.record(job | {"turn": whose}, listing)
            codes.add(_code_of(job))
    return next((code for code in (FAILED, WAITS_FOR_PERSON) if code in codes), DONE)


async def events(
    job_id: str | None = None,
    /,
    *,
    workflow: str | None = None,
    status: Many = None,
    user: str | None = None,
    count: Count = None,
    listing: Listing = Listing(),
) -> None:
    """Print the events of a job until it has ended, or of all jobs until interrupted.

    One line an event, with `-o json` one object a line, with `-o ids` only jobs that came to rest.

    Parameters
    ----------
    workflow
        Of all jobs, those of this one.
    status
        Of all jobs, changes to this status; repeat for more.
    user
        Of all jobs, those of this user.
    """
    if job_id is not None and (workflow or user or status):
        raise CycloptsError(msg="a job alone is followed without a filter")
    async with service(listing) as running:
        one_job = None if job_id is None else await whole(running, job_id)
        following = happenings(running, one_job, workflow, status or (), user)
        async with aclosing(following) as told:
            async for one in told:
                _print(one, listing)
                count = count and count - 1
                if count == 0:
                    return


async def _at_rest(
    running: RunningService, job_id: str, listing: Listing
) -> tuple[dict[str, Any], str]:
    """The job as it rests, and whose turn it is then."""
    from jobrunner.cli.frame.watching import drawn

    path = f"/jobs/{part(job_id)}"
    seen, job = await running.newer(path, "", 0)
    whose = turn(job, await running.get(f"{path}/explain"), listing)
    with drawn(job) as draw:
        tell = _telling(draw)
        tell(job, whose)
        while not job["needs_person"] and job["kind"] not in ("settled", "final"):
            seen, newer = await running.newer(path, seen, WATCH_S)
            job = newer or job
            whose = turn(job, await running.get(f"{path}/explain"), listing)
            tell(job, whose)
    return job, whose


def _telling(draw: Callable[[dict[str, Any], str], None]) -> Callable[[dict[str, Any], str], None]:
    """On a terminal it is drawn; elsewhere stderr has a line when it is somebody else's turn."""
    told = ["", ""]

    def tell(job: dict[str, Any], whose: str) -> None:
        draw(job, whose)
        if told != [job["status"], whose] and not sys.stderr.isatty():
            told[:] = [job["status"], whose]
            print(f"{job['id'][:SHORTEST_ID]}  {job['status']}  {whose}", file=sys.stderr)

    return tell


def _code_of(job: dict[str, Any]) -> int:
    """Of a job whose workflow is not loaded, nobody can say more than that it has a failure."""
    if job["needs_person"]:
        return WAITS_FOR_PERSON
    ended_as = job["ended_as"] or ("failed" if job["failure_code"] else "completed")
    return DONE if ended_as in ("completed", "partial") else FAILED


def _print(one: Happened, listing: Listing) -> None:
    if listing.output == "json":
        printing.line({"event": one.name, **one.data})
    elif listing.output == "ids":
        if one.name == "settled":
            print(one.data["id"], flush=True)
    elif one.name == "transition":
        for hop in one.data["hops"]:
            print(_hop(one.data, hop, listing), flush=True)
    else:
        print(_state(one.data, listing), flush=True)


def _hop(told: dict[str, Any], hop: dict[str, Any], listing: Listing) -> str:
    where = f"{hop['from_status'] or 'new'} → {hop['to_status']}"
    by = f"{hop['trigger']} by {hop['actor']}"
    why = f": {printing.cell('reason', hop['reason'], listing)}" if hop["reason"] else ""
    at = printing.instant(hop["at"], listing)
    return f"{at}  {told['job_id']}  {told['workflow']}  {where}  ({by}{why})"


def _state(job: dict[str, Any], listing: Listing) -> str:
    at = printing.instant(job["updated_at"], listing)
    said = job["ended_as"] or f"{job['progress']} %"
    message = job["failure_message"] or job["progress_message"]
    why = f": {printing.cell('message', message, listing)}" if message else ""
    return f"{at}  {job['id']}  {job['workflow']}  {job['status']}  {said}{why}"


EXAMPLES: Examples = {
    watch: examples(
        "jobrunner job watch 01a1f22d-61f8",
        "jobrunner job submit hello -o ids | jobrunner job watch -",
        "jobrunner job watch --all",
    ),
    events: examples(
        "jobrunner job events 01a1f22d-61f8",
        "jobrunner job events --workflow hello --status failed -o json",
    ),
}
