"""``workflow``: the declared lifecycles, as they are installed here. To pause one, to let it go
on and to move its jobs, a running service is needed."""

from typing import TYPE_CHECKING, Any, Literal

from cyclopts import App

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.installed import installed
from jobrunner.cli.frame.options import Flag, Listing, Shown, Where
from jobrunner.cli.frame.paging import Limit, Since
from jobrunner.core.declaration.workflow import Definition
from jobrunner.drawing.mermaid import mermaid
from jobrunner.drawing.svg import svg
from jobrunner.errors import Refused

if TYPE_CHECKING:
    from jobrunner.core.features.upgrades.forecasts import Forecast
    from jobrunner.stages import Registry

app = App(name="workflow", help="The workflows that are installed here.")


@app.command(name="list", help_epilogue=examples("jobrunner workflow list"))
def list_(*, shown: Shown = Shown()) -> None:
    """List the workflows, those that are refused included."""
    registry = _registry(shown)
    found = [_row(name, registry.current(name)) for name in sorted(registry.names())]
    found += [_row(name, None) for name in sorted(registry.refused["workflows"])]
    printing.rows(found, ("name", "version", "initial", "states", "job_types"), shown)


@app.command(help_epilogue=examples("jobrunner workflow show hello"))
def show(name: str, /, *, where: Where = Where()) -> None:
    """Print a declaration as JSON, with the operator's settings applied."""
    printing.json(_definition(name, where).workflow)


@app.command(
    help_epilogue=examples(
        "jobrunner workflow check",
        "jobrunner workflow check hello",
        "jobrunner workflow check --jobs",
    )
)
def check(
    name: str | None = None,
    /,
    *,
    jobs: Flag = False,
    shown: Shown = Shown(),
) -> int:
    """Prove that every job ends and all money is settled, whatever happens; or show how not.

    Parameters
    ----------
    jobs:
        Compare with the jobs under way: how many go on, how many under the declaration that they
        were born under, and how many would be stuck with the next start, for want of what.
    """
    from jobrunner.cli.admin.upgrades import forecasts
    from jobrunner.cli.bindings import rebound

    config = shown.load()
    registry = installed(config)
    ahead = forecasts(config, registry) if jobs else {}
    lines = rebound(config, registry)
    known = {*registry.known(), *ahead}
    found = [
        _checked(registry, one, lines.get(one, []), ahead.get(one))
        for one in ([name] if name else sorted(known))
    ]
    if shown.output == "table":
        for one in found:
            _print_checked(one)
    else:
        printing.rows(found, (), shown, key="name")
    return max([0 if one["ok"] else 1 for one in found], default=0)


@app.command(help_epilogue=examples("jobrunner workflow graph hello --format svg"))
def graph(
    name: str, /, *, format: Literal["mermaid", "svg"] = "mermaid", where: Where = Where()
) -> None:
    """Draw a workflow."""
    workflow = _definition(name, where).workflow
    print(mermaid(workflow) if format == "mermaid" else svg(workflow))


@app.command(
    help_epilogue=examples(
        "jobrunner workflow migrate hello --dry-run",
        "jobrunner workflow migrate hello --reason 'version 2'",
    )
)
async def migrate(
    name: str,
    /,
    *,
    dry_run: Flag = False,
    reason: str | None = None,
    listing: Listing = Listing(),
) -> int:
    """Let the running service move jobs under way to the declaration of today, where they fit.

    Parameters
    ----------
    dry_run:
        Only say how many would be moved, and why others would stay.
    """
    from jobrunner.cli.admin.upgrades import move

    return await move(name, reason, dry_run, listing)


@app.command(help_epilogue=examples("jobrunner workflow migrations --since 7d"))
async def migrations(
    *, limit: Limit = None, since: Since = None, listing: Listing = Listing()
) -> None:
    """List the orders to move jobs to the declaration of today, newest first."""
    from jobrunner.cli.admin.upgrades import orders

    await orders(limit, since, listing)


@app.command(help_epilogue=examples("jobrunner workflow pause hello --reason 'a new model'"))
async def pause(name: str, /, *, reason: str | None = None, listing: Listing = Listing()) -> None:
    """Let the running service start nothing of this workflow; what runs finishes."""
    from jobrunner.cli.pauses import hold

    await hold("workflows", name, "pause", reason, listing)


@app.command(help_epilogue=examples("jobrunner workflow resume hello"))
async def resume(name: str, /, *, reason: str | None = None, listing: Listing = Listing()) -> None:
    """Let a paused workflow go on."""
    from jobrunner.cli.pauses import hold

    await hold("workflows", name, "resume", reason, listing)


def _registry(where: Where) -> "Registry":
    return installed(where.load())


def _definition(name: str, where: Where) -> Definition:
    registry = _registry(where)
    found = registry.current(name)
    if found is None:
        raise _unknown(registry, name)
    return found


def _unknown(registry: "Registry", name: str) -> Refused:
    why = "; ".join(registry.refused["workflows"].get(name, ())) or "no such workflow is installed"
    return Refused("NOT_FOUND", f"{name}: {why}", status=404)


def _checked(
    registry: "Registry", name: str, notes: list[str], ahead: "Forecast | None"
) -> dict[str, Any]:
    """``notes`` are no faults; jobs that would be stuck are."""
    from jobrunner.cli.admin.upgrades import of_one_version

    definition = registry.current(name)
    if definition is None and name not in registry.known() and ahead is None:
        raise _unknown(registry, name)
    faults = [*registry.refused["workflows"].get(name, ())]
    notes = notes + of_one_version(registry, name) + registry.absent_children(name)
    jobs = _jobs(ahead) if ahead else {}
    ok = not faults and not jobs.get("stuck")
    return {"name": name, "ok": ok, "faults": faults, "notes": notes, **jobs}


def _jobs(ahead: "Forecast") -> dict[str, Any]:
    texts = [one.text for one in ahead.outlooks if one.fate != "today" or one.ahead]
    return {
        "go_on": ahead.jobs("today"),
        "under_older": ahead.jobs("older"),
        "stuck": ahead.jobs("stuck"),
        "lacks": list(ahead.lacks),
        "jobs": [ahead.summary, *texts],
    }


def _print_checked(found: dict[str, Any]) -> None:
    wrong = "refused" if found["faults"] else "jobs would be stuck"
    head = f"{found['name']}: {'ok' if found['ok'] else wrong}"
    jobs = "\n      ".join(found.get("jobs", ()))
    print("\n  ".join([head, *found["faults"], *found["notes"], *filter(None, [jobs])]))


def _row(name: str, definition: Definition | None) -> dict[str, Any]:
    if definition is None:
        return {"id": name, "name": name, "version": "refused: see `workflow check`"}
    workflow = definition.workflow
    return {
        "id": name,
        "name": name,
        "version": workflow.version,
        "initial": workflow.initial,
        "states": len(workflow.states),
        "job_types": ", ".join(job_type.name for job_type in workflow.job_types),
    }
