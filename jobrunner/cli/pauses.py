"""``stage``, and the pausing of jobs: what is held back, and lets go on."""

from typing import Any

from cyclopts import App

from jobrunner.cli.commands import Reason, each
from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import Examples, examples
from jobrunner.cli.frame.options import Ids, Listing
from jobrunner.cli.frame.service import RunningService, part, service

app = App(name="stage", help="Stages in the running service, and pausing them.")

COLUMNS = ("scope", "name", "used_by", "paused", "by", "at", "reason")


@app.command(name="list", help_epilogue=examples("jobrunner stage list"))
async def list_(*, listing: Listing = Listing()) -> None:
    """List the stages, the workflows that use them, and who paused which of them; for admins."""
    async with service(listing) as running:
        used = await _used(running)
        held = (await running.get("/admin/pauses"))["pauses"]
    paused = {(one["scope"], one["name"]): one for one in held}
    stages = sorted({*used, *(name for scope, name in paused if scope == "stage")})
    known = [*(("stage", name) for name in stages), *(at for at in paused if at[0] != "stage")]
    rows = [
        {"scope": scope, "name": name, "used_by": ", ".join(used.get(name, ())), "paused": False}
        | paused.get((scope, name), {})
        for scope, name in known
    ]
    printing.rows(rows, COLUMNS, listing, key="name")


@app.command(
    name="pause", help_epilogue=examples("jobrunner stage pause draw --reason 'no model today'")
)
async def pause_stage(name: str, /, *, reason: Reason = None, listing: Listing = Listing()) -> None:
    """Let no attempt of this stage start; what runs finishes."""
    await hold("stages", name, "pause", reason, listing)


@app.command(name="resume", help_epilogue=examples("jobrunner stage resume draw"))
async def resume_stage(
    name: str, /, *, reason: Reason = None, listing: Listing = Listing()
) -> None:
    """Let the attempts of a paused stage start again."""
    await hold("stages", name, "resume", reason, listing)


async def pause(ids: Ids, /, *, reason: Reason = None, listing: Listing = Listing()) -> None:
    """Let nothing new start in these jobs; what runs finishes."""
    await each(ids, listing, "/pause", reason)


async def resume(ids: Ids, /, *, reason: Reason = None, listing: Listing = Listing()) -> None:
    """Let paused jobs go on."""
    await each(ids, listing, "/resume", reason)


async def hold(scope: str, name: str, verb: str, reason: str | None, listing: Listing) -> None:
    body = {} if reason is None else {"reason": reason}
    async with service(listing) as running:
        told = await running.post(f"/admin/{scope}/{part(name)}/{verb}", body)
    printing.record({"id": name} | told, listing)


async def _used(running: RunningService) -> dict[str, list[str]]:
    """The stages that loaded workflows name, with the workflows."""
    used: dict[str, list[str]] = {}
    for one in (await running.get("/workflows"))["workflows"]:
        states = (await running.get(f"/workflows/{part(one['name'])}"))["states"]
        for name in sorted({stage for state in states for stage in _stages(state["stage"])}):
            used.setdefault(name, []).append(one["name"])
    used.pop("external", None)
    return used


def _stages(named: Any) -> list[str]:
    """One, or one for each type of job, or none."""
    if isinstance(named, dict):
        return list(named.values())
    return [named] if named else []


EXAMPLES: Examples = {
    pause: examples("jobrunner job pause 01a1f22d-61f8 --reason 'until she is back'"),
    resume: examples("jobrunner job list --paused -o ids | jobrunner job resume -"),
}
