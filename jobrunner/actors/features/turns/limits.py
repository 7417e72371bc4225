"""Limits that are changed while the service runs, and stay changed over restarts.

Each is a knob: how it is read, how it is turned, and what the settings say. What an operator set is
written first and counts as soon as it is on disk; what is running goes on, also above a limit that
was lowered.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.actors.shared import World
from jobrunner.actors.slots import Slots
from jobrunner.core.declaration.workflow import Quota
from jobrunner.core.features.turns.limits import LimitRow, SetLimit
from jobrunner.core.features.turns.rates import RATE_ALLOWED, rate_of
from jobrunner.core.job import Actor
from jobrunner.errors import Refused

Value = int | str | None
COUNTS = ("active_jobs", "per_user_active", "queued_jobs")


class Knob(Struct, frozen=True):
    """``least`` is the smallest number that it takes; None where it takes a rate."""

    read: Callable[[], Value]
    turn: Callable[[Any], None]
    least: int | None = 0


class LimitNow(Struct, frozen=True):
    """A limit as it stands. ``origin``: ``default`` (ours, or a plugin's), ``file``,
    ``environment``, or ``set`` at run time; ``idle`` is one that nothing here has today."""

    key: str
    value: Value
    configured: Value
    origin: str
    by: str = ""
    at: int | None = None
    reason: str | None = None
    idle: bool = False


class Limits:
    """``origins`` says where the settings come from; ``changed`` is told when one was turned."""

    def __init__(
        self,
        world: World,
        slots: Slots,
        resources: dict[str, int],
        origins: Mapping[str, str],
        changed: Callable[[], None],
    ) -> None:
        self._world = world
        self._origins = origins
        self._changed = changed
        self._knobs = dict(_knobs(world, slots, resources))
        self._configured = {key: knob.read() for key, knob in self._knobs.items()}
        self._set: dict[str, LimitRow] = {}

    def load(self, rows: Iterable[LimitRow]) -> None:
        """Turn what was turned in a life before."""
        for row in rows:
            self._set[row.key] = row
            if (knob := self._knobs.get(row.key)) is not None:
                value = msgspec.json.decode(row.value)
                if not _unfit(knob, value):
                    knob.turn(value)

    def now(self) -> tuple[LimitNow, ...]:
        return tuple(self._now(key) for key in sorted({*self._knobs, *self._set}))

    def told(self) -> dict[str, float]:
        """The numbers that were changed, by their keys."""
        found = {key: self._knobs[key].read() for key in self._set if key in self._knobs}
        return {key: value for key, value in found.items() if isinstance(value, int)}

    async def set(self, key: str, value: Value, actor: Actor, reason: str | None) -> LimitNow:
        """Raises: Refused NOT_FOUND, VALIDATION_ERROR"""
        knob = self._knob(key)
        if problem := _unfit(knob, value):
            errors = [{"path": "$.value", "message": problem}]
            raise Refused("VALIDATION_ERROR", f"{key} = {value!r}: {problem}", errors=errors)
        row = LimitRow(key, _text(value), actor.name, self._world.clock.now(), reason)
        await self._world.write(SetLimit(key, row.value, row.by, row.at, reason))
        self._set[key] = row
        knob.turn(value)
        self._changed()
        return self._now(key)

    async def reset(self, key: str, actor: Actor, reason: str | None) -> LimitNow | None:
        """Let the settings say it again; None where nothing has this limit any more.

        Raises: Refused NOT_FOUND"""
        if key not in self._set:
            self._knob(key)
            raise Refused("NOT_FOUND", f"{key} was not changed; it is as the settings say")
        now = self._world.clock.now()
        await self._world.write(SetLimit(key, None, actor.name, now, reason))
        del self._set[key]
        if (knob := self._knobs.get(key)) is None:
            return None
        knob.turn(self._configured[key])
        self._changed()
        return self._now(key)

    def _knob(self, key: str) -> Knob:
        if (knob := self._knobs.get(key)) is None:
            near = get_close_matches(key, list(self._knobs), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "GET /admin/limits lists them"
            raise Refused("NOT_FOUND", f"there is no limit {key!r} to change; {hint}")
        return knob

    def _now(self, key: str) -> LimitNow:
        knob, row = self._knobs.get(key), self._set.get(key)
        configured = self._configured.get(key)
        origin = self._origins.get(key, "default")
        if row is None:
            return LimitNow(key, configured, configured, origin)
        value = msgspec.json.decode(row.value) if knob is None else knob.read()
        return LimitNow(
            key, value, configured, "set", row.by, row.at, row.reason, idle=knob is None
        )


def _knobs(world: World, slots: Slots, resources: dict[str, int]) -> Iterator[tuple[str, Knob]]:
    for name in COUNTS:
        read, turn = partial(_read_count, slots, name), partial(_turn_count, slots, name)
        yield f"limits.{name}", Knob(read, turn, least=1)
    registry, rates = world.registry, world.rates
    for name in registry.stages:
        read = partial(lambda of: registry.stages[of].concurrency, name)
        turn = partial(_turn_stage, world, name)
        yield f"stages.{name}.concurrency", Knob(read, turn)
    for name in resources:
        yield (
            f"resources.{name}",
            Knob(partial(resources.get, name), partial(_put, resources, name)),
        )
    for rate in rates.now():
        said = partial(_read_rate, world, rate.name)
        yield f"rates.{rate.name}", Knob(said, partial(_turn_rate, world, rate.name), least=None)
    for workflow in registry.names():
        for name in Quota.__struct_fields__:
            read = partial(_read_quota, world, workflow, name)
            turn = partial(_turn_quota, world, workflow, name)
            yield f"workflows.{workflow}.quota.{name}", Knob(read, turn)


def _unfit(knob: Knob, value: object) -> str:
    if knob.least is None:
        fits = value is None or (isinstance(value, str) and rate_of(value) is not None)
        return "" if fits else f"must be {RATE_ALLOWED}, or null for no limit"
    number = isinstance(value, int) and not isinstance(value, bool)
    fits = number and knob.least <= int(str(value)) <= 2**53
    return "" if fits else f"must be a whole number from {knob.least}"


def _text(value: Value) -> str:
    return msgspec.json.encode(value).decode()


def _read_count(slots: Slots, name: str) -> int:
    count: int = getattr(slots.limits, name)
    return count


def _turn_count(slots: Slots, name: str, value: int) -> None:
    slots.limits = replace(slots.limits, **{name: value})


def _turn_stage(world: World, name: str, value: int) -> None:
    world.registry.adjust(replace(world.registry.stages[name], concurrency=value))


def _put(resources: dict[str, int], name: str, value: int) -> None:
    resources[name] = value


def _read_rate(world: World, name: str) -> str | None:
    limit = next(rate.limit for rate in world.rates.now() if rate.name == name)
    return limit.text if limit else None


def _turn_rate(world: World, name: str, value: str | None) -> None:
    world.rates.limited(name, rate_of(value) if value else None)


def _read_quota(world: World, workflow: str, name: str) -> int:
    definition = world.registry.current(workflow)
    count: int = getattr(definition.workflow.quota, name) if definition else 0
    return count


def _turn_quota(world: World, workflow: str, name: str, value: int) -> None:
    world.registry.requote(workflow, **{name: value})
