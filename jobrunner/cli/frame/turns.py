"""Says whose turn a job is: who must act for it to move."""

from typing import Any

from jobrunner.cli.frame.options import Form
from jobrunner.cli.frame.printing import instant

WORKER = "an outside worker "
ANSWER = "an answer to "
CHILDREN = "its children"
TIMERS = {"run_at": "it starts", "backoff": "it is tried again", "retry": "it is tried again"}


def turn(job: dict[str, Any], why: dict[str, Any], form: Form) -> str:
    """``job`` as it is shown, ``why`` as it is explained: who, and what they would do."""
    if job["kind"] in ("settled", "final"):
        return _ended(job)
    return (
        _held_up(job, why)
        or _attempted(why)
        or _in_line(why)
        or _timed(why, form)
        or _outside(job, why)
    )


def _ended(job: dict[str, Any]) -> str:
    revives = job["kind"] == "settled" and job["allowed"]["commands"]
    return f"nobody's, it has ended{'; a person may ' + _commands(job) if revives else ''}"


def _held_up(job: dict[str, Any], why: dict[str, Any]) -> str:
    if job["stuck"]:
        return f"an admin's: release it, it is stuck ({job['stuck']['reason']})"
    if not (paused := why.get("paused")):
        return ""
    reason = f": {paused['reason']}" if paused.get("reason") else ""
    whose = "a person's" if paused["what"] == "job" else "an admin's"
    return f"{whose}: resume the {paused['what']}, which {paused['by']} paused{reason}"


def _attempted(why: dict[str, Any]) -> str:
    attempt = why.get("attempt") or {}
    if attempt.get("status") == "parked" and str(why["waits_for"]).startswith(ANSWER):
        return f"somebody's: give {why['waits_for']}"
    if attempt.get("status") == "parked" and why["waits_for"].startswith(CHILDREN):
        return f"its children's: {why['waits_for']}"
    if attempt.get("status") == "parked":
        return f"a provider's: {why['waits_for']}"
    if attempt.get("status") != "running":
        return ""
    what = f"attempt {attempt['number']} of {attempt['state']}"
    if attempt["runs"] == "outside":
        return f"a worker's, outside: {attempt['holder']} works on {what}"
    if attempt["runs"] == "cluster":
        return f"the cluster's: it works on {what}"
    return f"the service's: it works on {what}"


def _in_line(why: dict[str, Any]) -> str:
    if "queue_position" not in why:
        return ""
    at_least = "" if why.get("queue_position_exact", True) else "at least "
    return f"the line's: place {at_least}{why['queue_position']}, waiting for {why['waits_for']}"


def _timed(why: dict[str, Any], form: Form) -> str:
    due = _due(why)
    return f"a timer's: {TIMERS[due['purpose']]} at {instant(due['due_at'], form)}" if due else ""


def _outside(job: dict[str, Any], why: dict[str, Any]) -> str:
    waits_for = str(why["waits_for"])
    if waits_for.startswith(WORKER):
        return f"a worker's, outside: {waits_for.removeprefix(WORKER)}"
    if job["needs_person"]:
        return f"a person's: {_commands(job)}"
    return f"somebody's, outside: {waits_for}"


def _due(why: dict[str, Any]) -> dict[str, Any] | None:
    """The timer that moves the job on, if it is one of those that it waits for."""
    if not any(words in why["waits_for"] for words in ("backoff", "start time")):
        return None
    timers = [one for one in why.get("timers", ()) if one["purpose"] in TIMERS]
    return min(timers, key=lambda one: str(one["due_at"]), default=None)


def _commands(job: dict[str, Any]) -> str:
    return " or ".join(job["allowed"]["commands"]) or "nothing that whoever asks may do"
