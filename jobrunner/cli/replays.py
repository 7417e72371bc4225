"""``job replay`` and ``job export``: decisions on record, made again, and carried elsewhere."""

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import CycloptsError, Parameter

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import Examples, examples
from jobrunner.cli.frame.installed import installed
from jobrunner.cli.frame.options import Flag, Listing
from jobrunner.cli.frame.prefixes import whole
from jobrunner.cli.frame.service import part, service
from jobrunner.errors import Refused

if TYPE_CHECKING:
    from jobrunner.core.declaration.workflow import Definition
    from jobrunner.core.features.upgrades.replays import Led, Retold
    from jobrunner.stages import Registry

FORMAT = 1
PAGE = 100
COLUMNS = ("version", "message", "before", "then", "now", "differs")


async def export(
    job_id: str,
    /,
    *,
    out: Annotated[Path | None, Parameter(alias="-O")] = None,
    redact: Flag = False,
    listing: Listing = Listing(),
) -> None:
    """Print the decisions about a job that are on record, for `job replay` on any machine.

    Parameters
    ----------
    out
        A file to write instead.
    redact
        Hide every text of people, providers and plugins; states, times and numbers stay.
    """
    from jobrunner.core.features.upgrades.replays import without_payloads

    found = await _asked(job_id, listing)
    if redact:
        found["decisions"] = without_payloads(found["decisions"])
    data = msgspec.json.format(msgspec.json.encode(found), indent=1)
    if out is None:
        print(printing.harmless(data.decode()))
    else:
        out.write_bytes(data + b"\n")


async def replay(job: str, /, *, workflow: Path | None = None, listing: Listing = Listing()) -> int:
    """Decide again what was decided about a job, and show what comes out otherwise.

    Parameters
    ----------
    job
        A job whose decisions are on record, or a file of `job export`.
    workflow
        Decide by this declaration (as `workflow show` prints it), not by the original ones.
    """
    found = _read(Path(job)) if Path(job).is_file() else await _asked(job, listing)
    told = _replayed(found, workflow, listing)
    _print(told, listing)
    return 1 if any(one.differs for one in told) else 0


async def _asked(job: str, listing: Listing) -> dict[str, Any]:
    """Raises: Refused, where nothing is on record."""
    async with service(listing) as running:
        job_id = await whole(running, job)
        path, query = f"/jobs/{part(job_id)}/decisions", {"limit": PAGE}
        first = page = await running.get(path, query)
        decisions = list(first["decisions"])
        while page["next_cursor"]:
            page = await running.get(path, query | {"cursor": page["next_cursor"]})
            decisions += page["decisions"]
    if not decisions:
        cure = f'[workflows.{first["workflow"]}] record = "decisions" keeps those to come'
        raise Refused("NOT_FOUND", f"no decision about {job_id} is on record; {cure}")
    about = {"format": FORMAT, "job_id": job_id, "workflow": first["workflow"]}
    return about | {"declarations": first["declarations"], "decisions": decisions}


def _read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = msgspec.json.decode(file.read_bytes())
        known = found["format"] == FORMAT
    except (msgspec.MsgspecError, OSError, KeyError, TypeError) as error:
        raise CycloptsError(msg=f"{file}: is no file of `job export`: {error}") from error
    if not known:
        raise CycloptsError(msg=f"{file}: has format {found['format']}, and this reads {FORMAT}")
    return found


def _replayed(found: dict[str, Any], workflow: Path | None, listing: Listing) -> "list[Retold]":
    """Raises: Refused, where the plugin of this workflow is not installed here."""
    from jobrunner.core.features.upgrades.replays import Recorded, replayed

    registry = installed(listing.load())
    name = found["workflow"]
    if registry.current(name) is None:
        raise Refused("NOT_FOUND", f"workflow {name} is not installed here; its functions decide")
    declarations = {
        digest: msgspec.json.encode(data) for digest, data in found["declarations"].items()
    }
    registry.remember((name, digest, data) for digest, data in declarations.items())
    pinned = {one.digest: one for one in registry.declared()}
    records = msgspec.convert(found["decisions"], list[Recorded])
    return list(replayed(records, pinned, _under(registry, name, workflow)))


def _under(registry: "Registry", name: str, workflow: Path | None) -> "Definition | None":
    if workflow is None:
        return None
    data = workflow.read_bytes()
    digest = sha256(data).hexdigest()
    registry.remember([(name, digest, data)])
    found = registry.pinned(digest)
    if found is None:
        raise CycloptsError(msg=f"{workflow}: is no declaration, as `workflow show` prints it")
    return found


def _print(told: "list[Retold]", listing: Listing) -> None:
    if listing.output == "json":
        printing.json(told)
        return
    rows = [
        {
            "version": one.version,
            "message": one.message,
            "before": one.before or "-",
            "then": _line(one.then),
            "now": _line(one.now) if one.now else one.why,
            "differs": ", ".join(one.differs) or "-",
        }
        for one in told
    ]
    printing.rows(rows, COLUMNS, listing, key="version")
    count = sum(bool(one.differs) for one in told)
    steps = f"{len(told)} decision{'' if len(told) == 1 else 's'}"
    print(
        f"{steps}, {count} would come out otherwise"
        if count
        else f"{steps}, each comes out as it did"
    )


def _line(led: "Led") -> str:
    money = "".join(f" {kind} {amount}" for kind, amount in led.credits)
    stuck = " stuck" if led.stuck else ""
    return f"{' > '.join(led.path) or led.status}{money}{stuck}"


EXAMPLES: Examples = {
    export: examples(
        "jobrunner job export 01a1f22d -O job.json", "jobrunner job export 01a1f22d --redact"
    ),
    replay: examples(
        "jobrunner job replay 01a1f22d",
        "jobrunner job replay 01a1f22d --workflow new.json",
        "jobrunner job replay job.json",
    ),
}
