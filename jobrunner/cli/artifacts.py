"""``artifact``: the named values of jobs, in versions; those of files are fetched as files."""

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, CycloptsError, Parameter

from jobrunner.cli.assets import kept
from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.options import Listing, Told, json_or_text, positive, text_of_file
from jobrunner.cli.frame.prefixes import whole
from jobrunner.cli.frame.service import part, service
from jobrunner.errors import Refused

app = App(name="artifact", help="Named values of jobs, in versions.")

COLUMNS = ("name", "value")
VERSIONS = ("name", "version", "created_at")
FILE = re.compile(r"(?:https?://[^/?#]+[^?#]*)?/assets/([^/?#]+)(?:/content)?")
Version = Annotated[int | None, Parameter(validator=positive)]


@app.command(
    name="list",
    help_epilogue=examples(
        "jobrunner artifact list 01a1f22d-61f8", "jobrunner artifact list 01a1f22d-61f8 draft_uri"
    ),
)
async def list_(job_id: str, name: str | None = None, /, *, listing: Listing = Listing()) -> None:
    """List the artifacts of a job as they are now, or all versions of the one of this NAME."""
    async with service(listing) as running:
        path = f"/jobs/{part(await whole(running, job_id))}"
        if name is None:
            values = (await running.get(path))["artifacts"]
            rows = [{"name": one, "value": value} for one, value in sorted(values.items())]
        else:
            found = await running.get(f"{path}/artifacts/{part(name)}")
            rows = [{"name": name, **version} for version in found["versions"]]
    printing.rows(rows, COLUMNS if name is None else VERSIONS, listing, key="name")


@app.command(
    help_epilogue=examples(
        "jobrunner artifact get 01a1f22d-61f8 metrics",
        "jobrunner artifact get 01a1f22d-61f8 export_uri guide.pdf",
        "jobrunner artifact get 01a1f22d-61f8 draft_uri --version 1",
    )
)
async def get(
    job_id: str,
    name: str,
    file: Path | None = None,
    /,
    *,
    version: Version = None,
    listing: Listing = Listing(),
) -> None:
    """Print an artifact, or put it into FILE: a file of the service as it is, a value as JSON.

    Parameters
    ----------
    version
        An older version; else the current one.
    """
    async with service(listing) as running:
        path = f"/jobs/{part(await whole(running, job_id))}/artifacts/{part(name)}"
        found = await running.get(path, {"version": version})
        address = FILE.fullmatch(found["value"]) if isinstance(found["value"], str) else None
        if file is None:
            printing.record(found, listing, key="name")
        elif address is not None:
            printing.record(await kept(running, address[1], file), listing)
        else:
            _write(file, found["value"])
            printing.record({"name": name, "file": str(file)}, listing, key="name")


@app.command(
    help_epilogue=examples(
        "jobrunner artifact put 01a1f22d-61f8 draft --file draft.json",
        "jobrunner artifact put 01a1f22d-61f8 title --value 'A better one' --base-version 2",
    )
)
async def put(
    job_id: str,
    name: str,
    /,
    *,
    value: str | None = None,
    file: Told = None,
    base_version: Version = None,
    listing: Listing = Listing(),
) -> None:
    """Write a new version of an artifact, where the workflow lets people edit it.

    Parameters
    ----------
    value
        JSON; else it is taken as text.
    file
        A file with JSON instead; `-` for stdin.
    base_version
        The version that was edited; if there is a newer one, nothing is written.
    """
    if (value is None) == (file is None):
        raise CycloptsError(msg="give the artifact one of --value and --file")
    new = json_or_text(value) if value is not None else _read(file or Path("-"))
    body = {"value": new} | ({"base_version": base_version} if base_version else {})
    async with service(listing) as running:
        where = f"/jobs/{part(await whole(running, job_id))}/artifacts/{part(name)}"
        printing.record(await running.ask("PUT", where, body=body), listing)


def _read(file: Path) -> Any:
    try:
        return msgspec.json.decode(text_of_file(file, "--file"))
    except msgspec.DecodeError as error:
        raise CycloptsError(msg=f"--file {file} is not JSON: {error}") from None


def _write(file: Path, value: Any) -> None:
    """Raises: Refused, where something is there already or cannot be written."""
    data = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    try:
        with file.open("xb") as made:
            made.write(data + b"\n")
    except FileExistsError:
        raise Refused("ALREADY_EXISTS", f"{file} is there already; name another file") from None
    except OSError as error:
        raise Refused("VALIDATION_ERROR", f"{file} cannot be written: {error.strerror}") from None
