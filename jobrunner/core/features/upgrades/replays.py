"""Decisions on record, and deciding them again.

Since deciding is pure, a decision can be repeated from what it was decided with: the message, the
facts and the moment. Decided again under its own declaration it comes out the same, unless code or
settings have changed since; under another one it shows where that would have led the job elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core.decide import Verdict, born, decide
from jobrunner.core.decision import Decision, KeyRow, NoOp
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts
from jobrunner.core.job import Actor, Artifact, Snapshot
from jobrunner.core.messages import Beat, Message, Moment, Submit
from jobrunner.errors import PluginFault

HIDDEN = "[redacted]"
# Fields that hold the words of people, providers and plugins, and nothing that the engine looks at;
# a few of these names are also those of structs, which are not hidden whole.
PAYLOADS = frozenset(
    {
        *("params", "result", "artifacts", "value", "fields", "labels", "kept", "answers", "log"),
        *("marks", "omitted", "default"),
    }
)
WORDS = frozenset(
    {
        *("message", "detail", "reason", "parts", "url", "notify_url", "asset_url", "result_url"),
        *("progress_message", "failure_message", "text", "stuck", "why", "fault", "unreadable"),
        *("storage_path", "turn_key", "correlation_id"),
    }
)
FIELD_NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}")
PULSES = frozenset({"heartbeat", "lease"})  # signs of life move them, and leave no record


class Led(Struct, frozen=True, omit_defaults=True):
    """The result of a decision, as far as two can be compared."""

    status: str
    path: tuple[str, ...] = ()
    credits: tuple[tuple[str, int], ...] = ()
    attempt: tuple[str, str, str] | None = None
    timers: dict[str, int] = {}
    stuck: str | None = None
    failure_code: str | None = None


class Recorded(Struct, frozen=True, omit_defaults=True):
    """A decision that was committed. ``digest`` is the declaration that it was decided by; ``base``
    is the job before it, where this life of the service has recorded nothing of the job yet."""

    version: int
    beat: int
    digest: str
    message: Message | Submit
    facts: Facts
    moment: Moment
    led: Led
    keys: tuple[KeyRow, ...] = ()
    base: Snapshot | None = None
    fault: str = ""


class Retold(Struct, frozen=True):
    """A decision made again. ``differs`` names what came out otherwise; nothing if all is equal."""

    version: int
    message: str
    before: str
    then: Led
    now: Led | None
    differs: tuple[str, ...]
    why: str = ""


def recorded(
    decision: Decision,
    message: Message | Submit,
    facts: Facts,
    moment: Moment,
    *,
    keys: tuple[KeyRow, ...] = (),
    based: bool = False,
) -> Recorded | None:
    """Make the record of a decision; a sign of life has none. ``based``: with the job before it."""
    if isinstance(message, Beat):
        return None
    after = decision.after
    return Recorded(
        version=after.version,
        beat=after.beat,
        digest=after.digest,
        message=_without_token(message),
        facts=facts,
        moment=moment,
        led=led_to(decision),
        keys=keys,
        base=decision.before if based else None,
    )


def led_to(decision: Decision) -> Led:
    after, attempt = decision.after, decision.after.attempt
    return Led(
        status=after.status,
        path=tuple(hop.to_status for hop in decision.hops),
        credits=tuple((entry.kind, entry.amount) for entry in decision.ledger),
        attempt=(attempt.state, attempt.stage, attempt.status) if attempt else None,
        timers={one.purpose: one.due_at for one in after.timers if one.purpose not in PULSES},
        stuck=after.stuck,
        failure_code=after.failure_code,
    )


def replayed(
    records: Iterable[Recorded], pinned: Mapping[str, Definition], under: Definition | None = None
) -> Iterator[Retold]:
    """Decide it all again, each by the declaration of its day or all by ``under``. A step that
    comes out otherwise is followed: the next one finds the job where this one has led it."""
    job: Snapshot | None = None
    astray = False
    for record in records:
        definition = under or pinned.get(record.digest)
        if record.base is not None and not (astray and job):
            job = _under(record.base, under)
        said: Verdict | str = "the declaration is not in this record"
        if definition is not None:
            said = _again(definition, job, record)
        told = _retold(record, job, said)
        astray = astray or bool(told.differs)
        if isinstance(said, Decision):
            job = replace(said.after, row=1)
        yield told


def without_payloads(value: Any) -> Any:
    """The same JSON with every text in it hidden that somebody wrote; its shape stays, and numbers
    do, so that it can be decided again as far as nothing turns on those words."""
    if isinstance(value, dict):
        return {key: _without(key, inner, value) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_payloads(inner) for inner in value]
    return value


def _without(name: str, value: Any, beside: dict[str, Any]) -> Any:
    """Redact a field of a struct. The key of a singleton may be made of a parameter."""
    if name == "artifacts":
        return _artifacts(value)
    if name in PAYLOADS:
        return _hidden(value, is_named=name != "labels")
    words = name in WORDS or (name == "key" and "mode" in beside)
    return HIDDEN if words and isinstance(value, str) else without_payloads(value)


def _artifacts(value: Any) -> Any:
    """Redact artifacts: whole ones, or nothing but their values, each by its name."""
    if not isinstance(value, dict):
        return without_payloads(value) if isinstance(value, list) else _hidden(value)
    return {
        name: without_payloads(one) if _is_whole(name, one) else _hidden(one)
        for name, one in value.items()
    }


def _is_whole(name: str, value: Any) -> bool:
    """Tell an artifact from a value that looks like one."""
    return (
        isinstance(value, dict)
        and set(Artifact.__struct_fields__) >= value.keys() >= {"name", "version", "value"}
        and (value["name"], type(value["version"])) == (name, int)
    )


def _hidden(value: Any, *, is_named: bool = True) -> Any:
    """Hide each text. Names of fields stay; a key that is none is somebody's word, too."""
    if isinstance(value, dict):
        return {
            key if is_named and FIELD_NAME.fullmatch(key) else f"{HIDDEN} {number}": _hidden(inner)
            for number, (key, inner) in enumerate(value.items(), 1)
        }
    if isinstance(value, list):
        return [_hidden(inner) for inner in value]
    return HIDDEN if isinstance(value, str) else value


def _without_token(message: Any) -> Any:
    """Nobody's token is on record; whoever has none goes by the name."""
    actor: Actor | None = getattr(message, "actor", None)
    return replace(message, actor=Actor(actor.name, actor.role)) if actor else message


def _under(job: Snapshot, under: Definition | None) -> Snapshot:
    return job if under is None else replace(job, digest=under.digest)


def _again(definition: Definition, job: Snapshot | None, record: Recorded) -> Verdict | str:
    message = record.message
    try:
        if isinstance(message, Submit):
            return born(definition, message, record.facts, record.moment, record.keys)
        if job is None:
            return "nothing of the job is on record before this"
        if job.status not in definition.states:
            return f"{job.status} is no state of this declaration"
        return decide(definition, job, message, record.facts, record.moment)
    except PluginFault as fault:
        return str(fault)
    except Exception as odd:  # noqa: BLE001 - a job that another declaration would not have led here
        return f"cannot be decided here: {type(odd).__name__}: {odd}"


def _retold(record: Recorded, job: Snapshot | None, said: Verdict | str) -> Retold:
    then, now, why = record.led, None, ""
    match said:
        case Decision():
            now = led_to(said)
        case NoOp():
            why = f"nothing to do: {said.name}"
        case str():
            why = said
        case refused:
            why = f"{refused.code}: {refused.detail}"
    names = then.__struct_fields__
    differs = tuple(
        name for name in names if now is None or getattr(now, name) != getattr(then, name)
    )
    before = job.status if job else ""
    name = type(record.message).__name__
    return Retold(record.version, name, before, then, now, differs if now else ("verdict",), why)
