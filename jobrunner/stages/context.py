"""What a stage is given. ``Context`` is for code that awaits, ``PlainContext`` for plain functions;
they have the same verbs, and neither knows where the stage runs: a ``Host`` does.

Everything a stage is told is in ``Given``, a struct that can be sent to another process.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Generic, Protocol

import msgspec
from msgspec import Struct
from typing_extensions import TypeVar

from jobrunner.core.job import Asset
from jobrunner.stages.outcomes import Parked, PermanentFailure
from jobrunner.stages.shelf import Kept, Shelf

P = TypeVar("P", default=Any)
R = TypeVar("R", default=Any)

LINE_MAX = 2_000
KEPT_MAX = 64 * 1024


class Given(Struct, frozen=True):
    """``kept`` and ``answers`` are what the attempt has from before; ``files`` are the files behind
    artifacts, by name; ``seconds`` how long the attempt may take (0: for ever); ``number`` how
    many files the job has."""

    job_id: str
    workflow: str
    user_id: str
    job_type: str
    state: str
    run_id: str
    attempt: int
    params: Any = None
    artifacts: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    files: dict[str, Kept] = {}
    seconds: float = 0
    root: str = ""
    folder: str = ""
    number: int = 0
    scratch: str = ""


class Host(Protocol):
    """What runs a stage, as its context sees it."""

    async def progress(self, percent: int | None, message: str | None) -> None: ...

    async def keep(self, name: str, value: Any) -> None:
        """Returns when it is on disk."""
        ...

    async def block(self, function: Callable[[], R]) -> R:
        """Runs what would hold up everybody else."""
        ...

    def log(self, line: str) -> None: ...

    def monotonic(self) -> float: ...

    def fresh(self) -> str:
        """A new id."""
        ...


class _Known(Generic[P]):
    """What both forms of the context know."""

    def __init__(self, given: Given, host: Host, params: P) -> None:
        self.job_id = given.job_id
        self.workflow = given.workflow
        self.user_id = given.user_id
        self.job_type = given.job_type
        self.state = given.state
        self.run_id = given.run_id
        self.attempt = given.attempt
        self.params = params
        self.artifacts: Mapping[str, Any] = given.artifacts
        self.settings: Mapping[str, Any] = given.settings
        self.scratch = given.scratch
        self.saved: list[tuple[Asset, str]] = []
        self._kept = dict(given.kept)
        self._given = given
        self._host = host
        self._shelf = Shelf(given.root, given.folder, given.number)
        self._until = host.monotonic() + given.seconds if given.seconds else None

    def idempotency_key(self, name: str = "") -> str:
        """What a provider recognises a repeated call by: the same in every attempt of this step in
        this run. ``name`` tells several calls of one stage apart."""
        parts = (self.job_id, self.state, self.run_id, name)
        return ":".join(part for part in parts if part)

    def seconds_left(self) -> float | None:
        """Until the attempt is ended for taking too long; None when it may take for ever."""
        return None if self._until is None else max(self._until - self._host.monotonic(), 0.0)

    def log(self, line: str) -> None:
        """A line that is kept with the attempt; the last 200 of them are."""
        self._host.log(str(line)[:LINE_MAX])

    def _answer(self, key: str, timeout_s: float) -> Any:
        if key not in self._given.answers:
            raise Parked(key, timeout_s)
        return self._given.answers[key]

    def _save(self, name: str, content: bytes | str) -> Kept:
        return self._shelf.put(name, content)

    def _took(self, kept: Kept, asset_type: str, artifact: str) -> Asset:
        asset_id = self._host.fresh()
        url = f"/assets/{asset_id}/content"
        asset = Asset(asset_id, asset_type, url, kept.path, kept.size, kept.sha256)
        self.saved.append((asset, artifact))
        return asset

    def _file(self, artifact: str) -> str:
        return self._shelf.sound(artifact, self._given.files.get(artifact))


class Context(_Known[P]):
    """For stages that await. ``params`` is the struct of the job type, ``artifacts`` the job's
    current values, ``settings`` what the operator set for the workflow, ``scratch`` a folder that
    goes with the attempt (stages in threads and processes have one)."""

    async def progress(self, percent: int | None = None, message: str | None = None) -> None:
        """How far it is (0 to 100), and with what. Say it as often as you like: at most one a
        second is stored, and the last always."""
        await self._host.progress(percent, message)

    async def heartbeat(self) -> None:
        """It goes on, though there is nothing to tell."""
        await self._host.progress(None, None)

    async def once(self, name: str, work: Callable[[], Awaitable[R]]) -> R:
        """The result of ``work``, which is not done again when this attempt comes by here a second
        time: after a callback, or after the service was interrupted. Something that was cut off
        half way is done again, so pass ``idempotency_key(name)`` on to whom it concerns. The result
        must fit into JSON, and comes back as that."""
        if name not in self._kept:
            value = stored(name, await work())
            await self._host.keep(name, value)
            self._kept[name] = value
        result: R = self._kept[name]
        return result

    async def await_callback(self, key: str, timeout_s: float = 0) -> Any:
        """What came in under ``key``, the provider's name for this piece of work. If nothing did so
        far, the job is parked: it holds no slot, no task and no memory, this function is left at
        once, and run again from the top when the answer is there. So whatever comes before goes
        through ``once``. After ``timeout_s`` (0: what the state allows) the attempt fails."""
        return self._answer(key, timeout_s)

    async def save(
        self, name: str, content: bytes | str, *, asset_type: str, artifact: str = ""
    ) -> Asset:
        """Put a file into the job's library: ``content`` is the bytes, or the path of a file that
        is moved there. It belongs to the job as soon as the attempt is done; nobody ever sees half
        of it. With ``artifact`` that artifact's new value is the address of the file."""
        kept = await self._host.block(lambda: self._save(name, content))
        return self._took(kept, asset_type, artifact)

    async def file(self, artifact: str) -> str:
        """The path of the file behind an artifact, checked against size and digest. One that is
        missing or damaged ends the attempt for good: CORRUPT_INPUT."""
        return await self._host.block(lambda: self._file(artifact))


class PlainContext(_Known[P]):
    """The same for plain functions, in a process or a thread of their own: the same verbs, which
    return when they are done."""

    def __init__(
        self, given: Given, host: Host, params: P, wait: Callable[[Coroutine[Any, Any, Any]], Any]
    ) -> None:
        super().__init__(given, host, params)
        self._wait = wait

    def progress(self, percent: int | None = None, message: str | None = None) -> None:
        self._wait(self._host.progress(percent, message))

    def heartbeat(self) -> None:
        self._wait(self._host.progress(None, None))

    def once(self, name: str, work: Callable[[], R]) -> R:
        if name not in self._kept:
            value = stored(name, work())
            self._wait(self._host.keep(name, value))
            self._kept[name] = value
        result: R = self._kept[name]
        return result

    def await_callback(self, key: str, timeout_s: float = 0) -> Any:
        return self._answer(key, timeout_s)

    def save(
        self, name: str, content: bytes | str, *, asset_type: str, artifact: str = ""
    ) -> Asset:
        return self._took(self._save(name, content), asset_type, artifact)

    def file(self, artifact: str) -> str:
        return self._file(artifact)


def stored(name: str, value: Any) -> Any:
    """What will come back another time, so that the first time is no different."""
    try:
        data = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise PermanentFailure(
            "CANNOT_KEEP", f"{name!r} does not fit into JSON: {error}"
        ) from error
    if len(data) > KEPT_MAX:
        raise PermanentFailure("CANNOT_KEEP", f"{name!r} is {len(data)} bytes; {KEPT_MAX} are kept")
    return msgspec.json.decode(data)
