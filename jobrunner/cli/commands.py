"""``job tell`` and the commands that most workflows have: named requests that move a job.

The fields of a command come from its declaration, as the running service publishes it, so that a
text stays a text and a number becomes one; the service has the last word on all of them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import CycloptsError, Parameter

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import Examples, examples
from jobrunner.cli.frame.options import Ids, Listing, Many, Told, pairs, spelled_out, text_of_file
from jobrunner.cli.frame.prefixes import whole
from jobrunner.cli.frame.service import RunningService, part, service
from jobrunner.errors import Refused

Reason = Annotated[str | None, Parameter(help="Why; it is kept in the history.")]
Schema = Mapping[str, Any]

COLUMNS = ("command", "fields")
ANYTHING = "any JSON"
WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
}
WORDS |= {"array": "JSON list", "object": "JSON object", "null": "null"}


async def tell(
    job_id: str,
    command: str | None = None,
    /,
    *,
    field: Many = None,
    file: Told = None,
    reason: Reason = None,
    if_version: int | None = None,
    listing: Listing = Listing(),
) -> None:
    """Give a job a command of its workflow; without one, list those that it takes now.

    Parameters
    ----------
    field
        A field of the command as NAME=VALUE; repeat for more.
    file
        The fields as a JSON object; `-` for stdin. Each --field overrides it.
    if_version
        Only if the job still has this version.
    """
    async with service(listing) as running:
        job = await running.get(f"/jobs/{part(await whole(running, job_id))}")
        declared = await _declared(running, job["workflow"])
        if command is None:
            printing.rows(_possible(job, declared), COLUMNS, listing, key="command")
            return
        if command not in {*declared, *job["allowed"]["commands"]}:
            raise Refused("UNKNOWN_COMMAND", f"{command!r}: {_now(job)}")
        body = body_of(command, declared.get(command, {}), file, field)
        given = {"reason": reason, "expected_version": if_version}
        body |= {name: value for name, value in given.items() if value is not None}
        printing.record(await _told(running, job, command, body), listing)


async def cancel(ids: Ids, /, *, reason: Reason = None, listing: Listing = Listing()) -> None:
    """Cancel jobs, where their workflow can; `-` reads ids from stdin."""
    await each(ids, listing, "/cancel", reason)


async def retry(ids: Ids, /, *, reason: Reason = None, listing: Listing = Listing()) -> None:
    """Start failed jobs again, where their workflow can; `-` reads ids from stdin."""
    await each(ids, listing, "/retry", reason)


async def run(ids: Ids, /, *, reason: Reason = None, listing: Listing = Listing()) -> None:
    """Start jobs that wait for it, where their workflow can; `-` reads ids from stdin."""
    await each(ids, listing, "/run", reason)


async def stop(ids: Ids, /, *, reason: Reason = None, listing: Listing = Listing()) -> None:
    """End the running attempt of jobs as a permanent failure; for admins."""
    await each(ids, listing, "/stop", reason, above="/admin/jobs")


async def release(ids: Ids, /, *, reason: Reason = None, listing: Listing = Listing()) -> None:
    """Let stuck jobs go on; for admins."""
    await each(ids, listing, "/release", reason, above="/admin/jobs")


async def move(
    job_id: str,
    to: str,
    /,
    *,
    reason: Reason = None,
    if_version: int | None = None,
    listing: Listing = Listing(),
) -> None:
    """Take one declared edge, to the status TO.

    Parameters
    ----------
    if_version
        Only if the job still has this version.
    """
    given = {"to": to, "reason": reason, "expected_version": if_version}
    body = {name: value for name, value in given.items() if value is not None}
    async with service(listing) as running:
        where = f"/jobs/{part(await whole(running, job_id))}/transitions"
        printing.record(await running.post(where, body), listing)


async def delete(ids: Ids, /, *, listing: Listing = Listing()) -> None:
    """Delete ended jobs and their files; `-` reads ids from stdin."""
    async with service(listing) as running:
        for one in spelled_out(ids):
            job_id = await whole(running, one)
            await running.ask("DELETE", f"/jobs/{part(job_id)}")
            printing.record({"id": job_id, "deleted": True}, listing)


async def each(
    ids: list[str], listing: Listing, suffix: str, reason: str | None, above: str = "/jobs"
) -> None:
    """One after the other; the first refusal ends it, and what was done before it is printed."""
    body = {} if reason is None else {"reason": reason}
    async with service(listing) as running:
        for one in spelled_out(ids):
            job_id = part(await whole(running, one))
            printing.record(await running.post(f"{above}/{job_id}{suffix}", body), listing)


async def _told(
    running: RunningService, job: dict[str, Any], command: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Raises: Refused, which also names what is possible where this is not."""
    try:
        told = await running.post(f"/jobs/{part(job['id'])}/{part(command)}", body)
    except Refused as refused:
        if command in job["allowed"]["commands"]:
            raise
        detail = f"{refused.detail}; {_now(job)}"
        raise Refused(refused.code, detail, status=refused.status) from None
    found: dict[str, Any] = told
    return found


async def _declared(running: RunningService, workflow: str) -> dict[str, Schema]:
    """The schema of the fields of each command; of a workflow that is not loaded, none is known."""
    try:
        found = await running.get(f"/workflows/{part(workflow)}")
    except Refused as refused:
        if refused.status != 404:
            raise
        return {}
    return {one["name"]: resolved(one["fields_schema"]) for one in found["commands"]}


def resolved(schema: Schema | None) -> Schema:
    """A schema of an object may be a reference into itself."""
    if not schema or "$ref" not in schema:
        return schema or {}
    defined = schema["$defs"]
    return {**defined[schema["$ref"].rpartition("/")[2]], "$defs": defined}


def body_of(
    what: str, schema: Schema, file: Path | None, field: list[str] | None
) -> dict[str, Any]:
    """Make a body of options, as its schema has it."""
    return _whole(file) | _fields(what, schema, field or ())


def _possible(job: dict[str, Any], declared: Mapping[str, Schema]) -> list[dict[str, Any]]:
    return [
        {"command": name, "fields": _listed(declared.get(name, {})) or None}
        for name in job["allowed"]["commands"]
    ]


def _now(job: dict[str, Any]) -> str:
    known = ", ".join(job["allowed"]["commands"]) or "none"
    return f"{job['workflow']} in {job['status']} takes of whoever asks: {known}"


# ---------------------------------------------------------------- fields


def _fields(command: str, schema: Schema, given: list[str] | tuple[str, ...]) -> dict[str, Any]:
    known = schema.get("properties", {})
    found = {}
    for name, text in pairs(given).items():
        if schema and name not in known:
            takes = _listed(schema) or "no field"
            raise CycloptsError(msg=f"--field {name}: {command} takes {takes}")
        found[name] = _value(name, text, _kinds(known.get(name, {}), schema))
    return found


def _whole(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    text = text_of_file(file, "--file")
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise CycloptsError(msg=f"--file {file} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CycloptsError(msg=f"--file {file}: must hold a JSON object")
    return found


def _value(name: str, text: str, kinds: frozenset[str]) -> Any:
    """As its declaration says. Where that takes texts and other things, JSON is what it reads as,
    and the rest is text; where it takes only texts, all of it is."""
    if kinds <= {"string", "null"} and kinds:
        return text
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    if not kinds or _kind(value) in kinds or (_kind(value) == "integer" and "number" in kinds):
        return value
    if "string" in kinds:
        return text
    raise CycloptsError(msg=f"--field {name}={text}: must be {_words(kinds)}")


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else kinds.get(type(value), "object")


def _kinds(schema: Schema, whole: Schema) -> frozenset[str]:
    """The types that a schema takes; none where it does not say."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _kinds(whole.get("$defs", {}).get(name, {}), whole)
    if "anyOf" in schema:
        return frozenset().union(*(_kinds(one, whole) for one in schema["anyOf"]))
    if "enum" in schema:
        return frozenset(map(_kind, schema["enum"]))
    told = schema.get("type", ())
    return frozenset([told] if isinstance(told, str) else told)


def _listed(schema: Schema) -> str:
    needed = schema.get("required", ())
    return ", ".join(
        f"{name} ({_choices(one) or _words(_kinds(one, schema))}"
        f"{'' if name in needed else ', optional'})"
        for name, one in schema.get("properties", {}).items()
    )


def _choices(schema: Schema) -> str:
    return " or ".join(map(str, schema.get("enum", ())))


def _words(kinds: frozenset[str]) -> str:
    return " or ".join(WORDS[kind] for kind in sorted(kinds) if kind != "null") or ANYTHING


EXAMPLES: Examples = {
    tell: examples(
        "jobrunner job tell 01a1f22d-61f8",
        "jobrunner job tell 01a1f22d-61f8 confirm-upload --field video_uri=/assets/7/content",
        "jobrunner job tell 01a1f22d-61f8 cancel --reason 'a newer one is better'",
    ),
    cancel: examples("jobrunner job list --workflow hello -o ids | jobrunner job cancel -"),
    retry: examples("jobrunner job list --status failed -o ids | jobrunner job retry -"),
    run: examples("jobrunner job run 01a1f22d-61f8"),
    stop: examples("jobrunner job stop 01a1f22d-61f8 --reason 'it hangs'"),
    release: examples("jobrunner job list --stuck -o ids | jobrunner job release -"),
    move: examples("jobrunner job move 01a1f22d-61f8 completed --reason 'done by hand'"),
    delete: examples("jobrunner job delete 01a1f22d-61f8"),
}
