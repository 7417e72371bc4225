"""Takes work as long as there is room for it, and gives back what is left when it is told to
stop."""

import asyncio
from collections import Counter

import anyio
from msgspec import Struct

from jobrunner.client import CallerError, ClaimRecord, NotPermitted
from jobrunner.client.talk import ONCE
from jobrunner.client.talks import remote
from jobrunner.errors import JobrunnerError, Misconfigured
from jobrunner.work.one_claim import Equipment, OneClaim

WAIT_S = 10.0
REST_S, REST_S_MAX = 0.5, 15.0


class WorkTerms(Struct, frozen=True):
    """``slots`` is how many stages run at a time, ``drain_s`` how long they may go on when told to
    stop; ``resources`` is what this machine has."""

    slots: int
    drain_s: float
    resources: dict[str, int] = {}


class Taking:
    def __init__(self, equipment: Equipment, terms: WorkTerms) -> None:
        self._with = equipment
        self._terms = terms
        self._running: dict[OneClaim, asyncio.Task[None]] = {}
        self._draining = asyncio.Event()
        self._changed = asyncio.Event()
        self._trouble = ""
        self._key = ""
        equipment.around.on_release = self._changed.set

    def drain(self) -> None:
        """Take nothing more."""
        self._draining.set()
        self._changed.set()

    @property
    def running(self) -> int:
        """Count the claims that are under way."""
        return len(self._running)

    async def run(self) -> None:
        """Returns when it was told to stop, and nothing is left. Raises: Misconfigured, for a token
        that may not do this."""
        rest_s = REST_S
        try:
            while not self._draining.is_set():
                runs = self._ready()
                if not runs:
                    await self._until_changed()
                    continue
                try:
                    found = await self._claims(runs)
                    self._well()
                    rest_s = REST_S
                except NotPermitted as refused:
                    raise Misconfigured(f"{refused.code}: {refused.detail}") from None
                except JobrunnerError as trouble:
                    self._say_once(trouble)
                    await self._until_changed(rest_s)
                    rest_s = min(rest_s * 2, REST_S_MAX)
                    continue
                for claimed in found:
                    self._begin(claimed)
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()

    def _ready(self) -> list[dict[str, str]]:
        held = self._with.around.is_held(self._with.abilities.definition.workflow.name)
        if held or len(self._running) >= self._terms.slots:
            return []
        running = Counter(one.stage.name for one in self._running)
        return self._with.abilities.with_room(running, self._terms.resources)

    async def _claims(self, runs: list[dict[str, str]]) -> list[ClaimRecord]:
        """Work that comes while it is told to stop is given back. When the answer is lost, the next
        request has its key and is answered as that one was."""
        self._key = self._key or self._with.ports.ids.fresh()
        abilities = self._with.abilities
        free = 1 if abilities.bounded else self._terms.slots - len(self._running)
        talk = remote.claims(
            abilities.definition.workflow.name,
            runs=runs,
            digest=abilities.definition.digest,
            most=min(free, 100),
            wait_s=WAIT_S,
            key=self._key,
        )
        found = await self._with.client.hold(talk, ONCE)
        self._key = ""
        return found

    def _begin(self, claimed: ClaimRecord) -> None:
        one = OneClaim(self._with, claimed)
        if self._draining.is_set():
            one.give_back()
        self._running[one] = asyncio.ensure_future(self._run(one))

    async def _run(self, one: OneClaim) -> None:
        try:
            await one.run()
        except Exception as fault:  # noqa: BLE001 - one claim costs no other
            self._with.log("claim.fault", level="error", detail=f"{type(fault).__name__}: {fault}")
        finally:
            del self._running[one]
            self._changed.set()

    async def _end(self) -> None:
        """Let stages end for a while, then give back what is left."""
        self._draining.set()
        if self._running:
            await asyncio.wait(set(self._running.values()), timeout=self._terms.drain_s)
        for one in list(self._running):
            one.give_back()
        if self._running:
            await asyncio.wait(set(self._running.values()), timeout=self._terms.drain_s)

    async def _until_changed(self, seconds: float | None = None) -> None:
        self._changed.clear()
        if self._draining.is_set():
            return
        with anyio.move_on_after(seconds):
            await self._changed.wait()

    def _say_once(self, trouble: JobrunnerError) -> None:
        """Name what is wrong when it begins, and not again before it is another one."""
        text = trouble.detail if isinstance(trouble, CallerError) else str(trouble)
        code = getattr(trouble, "code", "")
        if (code or text) != self._trouble:
            self._trouble = code or text
            self._with.log("work.waits", level="error", code=code or None, detail=text)

    def _well(self) -> None:
        if self._trouble:
            self._trouble = ""
            self._with.log("work.goes_on")
