"""Ids of jobs, given whole or by as much of their beginning as tells them apart."""

import re

from cyclopts import CycloptsError

from jobrunner.cli.frame.service import RunningService
from jobrunner.cli.frame.tables import shortest
from jobrunner.core.access import unknown
from jobrunner.core.job import JOB_ID

BEGINNING = re.compile(r"[0-9a-f-]+")
FEWEST = 8
CANDIDATES = 10


async def whole(running: RunningService, text: str) -> str:
    """The one id that begins like this. What cannot be a beginning is left to the service.

    Raises: Refused, when there is none; CycloptsError, when there are several or too many.
    """
    given = text.strip().lower()
    if JOB_ID.fullmatch(given) or not BEGINNING.fullmatch(given):
        return text
    if len(given) < FEWEST:
        raise CycloptsError(msg=f"{text!r} is too little of a job's id: give {FEWEST} letters")
    query = {"id": given, "limit": CANDIDATES + 1}
    found = [job["id"] for job in (await running.get("/jobs", query))["jobs"]]
    if not found:
        raise unknown(text)
    if len(found) > 1:
        raise _ambiguous(text, found)
    return str(found[0])


def _ambiguous(text: str, found: list[str]) -> CycloptsError:
    length = shortest(found)
    listed = "\n  ".join(one[:length] for one in found[:CANDIDATES])
    more = "\n  …" if len(found) > CANDIDATES else ""
    return CycloptsError(msg=f"{text!r} begins the ids of several jobs:\n  {listed}{more}")
