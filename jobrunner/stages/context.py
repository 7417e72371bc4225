"""The context of a stage. ``Context`` is for code that awaits, ``PlainContext`` for plain
functions; they have the same verbs, and neither knows where the stage runs: a ``Host`` does.

Everything a stage is told is in ``Given``, a struct that can be sent to another process.
"""

import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Generic
from urllib.parse import quote

import msgspec
from typing_extensions import TypeVar

from jobrunner.core.features.kept_values import size_of, too_much
from jobrunner.core.features.tracing import HEADER
from jobrunner.core.features.webhooks import name_of
from jobrunner.core.job import Asset
from jobrunner.core.messages import Report
from jobrunner.errors import PermanentFailure
from jobrunner.files.library import Kept, Shelf, checked_name, handed_out
from jobrunner.outgoing.calls import (
    PATIENCE,
    Download,
    Exchange,
    Fetched,
    Http,
    Patience,
    PlainHttp,
    Reply,
)
from jobrunner.stages.answers import PlainQuestioning, Questioning
from jobrunner.stages.families import SubmitsJobs, SubmitsJobsPlainly
from jobrunner.stages.given import Given, Host
from jobrunner.stages.outcomes import Done, Parked, returned
from jobrunner.stages.requests import Answer, Browse, Find, Found, Held, Recall, Recalled

P = TypeVar("P", default=Any)
R = TypeVar("R", default=Any)
A = TypeVar("A", default=Any)

LINE_MAX = 2_000
CONTENT = re.compile(r"(?:https?://[^/?#]+)?/assets/([^/?#]+)(?:/content)?")


class _Known(Generic[P]):
    """The part that both forms of the context share."""

    def __init__(self, given: Given, host: Host, params: P) -> None:
        self.job_id = given.job_id
        self.workflow = given.workflow
        self.user_id = given.user_id
        self.job_type = given.job_type
        self.state = given.state
        self.run_id = given.run_id
        self.attempt = given.attempt
        self.traceparent = given.traceparent
        self.params = params
        self.artifacts: Mapping[str, Any] = dict(given.artifacts)
        self.settings: Mapping[str, Any] = given.settings
        self.saved: list[tuple[Asset, str]] = []
        self._kept = dict(given.kept)
        self._kept_bytes = -1
        self._given = given
        self._host = host
        self._shelf = Shelf(given.root, given.folder, given.number, host.room)
        self._until = host.monotonic() + given.seconds if given.seconds else None

    @property
    def scratch(self) -> str:
        """A folder that goes with the attempt."""
        return handed_out(self._given.scratch)

    @property
    def kept(self) -> Mapping[str, Any]:
        """The values that ``once`` has stored in this attempt, by name."""
        return dict(self._kept)

    def callback_url(self, source: str) -> str:
        """Return where a provider delivers its webhooks for this source."""
        if not self._given.base_url:
            text = "nobody knows where this service is reached; set [server] public_url"
            raise PermanentFailure("NO_PUBLIC_URL", text)
        return f"{self._given.base_url.rstrip('/')}/webhooks/{quote(source, safe='')}"

    def idempotency_key(self, name: str = "") -> str:
        """A key for a provider to recognise a repeated call by: the same in every attempt of this
        step in this run. ``name`` tells several calls of one stage apart."""
        parts = (self.job_id, self.state, self.run_id, name)
        return ":".join(part for part in parts if part)

    def seconds_left(self) -> float | None:
        """Return the time until the attempt is ended for taking too long; None when it may take for
        ever."""
        return None if self._until is None else max(self._until - self._host.monotonic(), 0.0)

    def log(self, line: str) -> None:
        """A line that is kept with the attempt; the last 200 of them are."""
        self._host.log(str(line)[:LINE_MAX])

    def _answer(self, key: str, timeout_s: float, source: str) -> Any:
        name = name_of(source, key) if source else key
        if name not in self._given.answers:
            raise Parked(key, timeout_s, source)
        return self._given.answers[name]

    def _keepable(self, name: str, value: Any) -> Any:
        """Return the value as it will come back later, so that the first time is no different."""
        data = _written(name, value)
        if self._kept_bytes < 0:
            self._kept_bytes = size_of(self._kept)
        if why := too_much(name, len(data), self._kept_bytes):
            raise PermanentFailure("CANNOT_KEEP", why)
        self._kept_bytes += len(name) + len(data)
        return msgspec.json.decode(data)

    def _took(self, kept: Kept, asset_type: str, artifact: str) -> Asset:
        asset_id = self._host.fresh()
        url = f"/assets/{asset_id}/content"
        asset = Asset(asset_id, asset_type, url, kept.path, kept.size, kept.sha256)
        self.saved.append((asset, artifact))
        return asset

    def _made(self, artifacts: Mapping[str, Any]) -> Report:
        """Report what was saved since the last time, with these, and not a second time."""
        ended = returned(Done(artifacts=dict(artifacts)), self.saved)
        if ended.failure is not None:
            raise PermanentFailure("CANNOT_KEEP", ended.failure.message)
        self.saved.clear()
        self.artifacts = {**self.artifacts, **ended.report.artifacts}
        return ended.report

    def _file(self, artifact: str) -> str:
        return self._shelf.sound(artifact, self._given.files.get(artifact))

    async def _exchanged(self, exchange: Exchange) -> Reply:
        return _of(Reply, await self._host.ask(traced(exchange, self.traceparent)))


class Context(_Known[P], Questioning, SubmitsJobs):
    """The context of a stage that awaits. ``params`` is the struct of the job type, ``artifacts``
    the job's current values, ``settings`` what the operator set for the workflow, ``http`` the way
    out."""

    @property
    def http(self) -> Http:
        """Made when it is used: kept, it would keep this context, and that it, in a circle which
        only the collector of garbage undoes."""
        return Http(self._exchanged)

    async def progress(self, percent: int | None = None, message: str | None = None) -> None:
        """How far it is (0 to 100), and with what. Say it as often as you like: at most one a
        second is stored, and the last always."""
        await self._host.progress(percent, message)

    async def heartbeat(self) -> None:
        """Tell the service that the stage is alive, without progress to report."""
        await self._host.progress(None, None)

    async def once(self, name: str, work: Callable[[], Awaitable[R]]) -> R:
        """The result of ``work``, which is not done again when this attempt comes by here a second
        time: after a callback, or after the service was interrupted. Something that was cut off
        half way is done again, so pass ``idempotency_key(name)`` on to whom it concerns. The result
        must fit into JSON, and comes back as that."""
        if name not in self._kept:
            value = self._keepable(name, await work())
            await self._host.keep(name, value)
            self._kept[name] = value
        result: R = self._kept[name]
        return result

    async def await_callback(self, key: str, timeout_s: float = 0, *, source: str = "") -> Any:
        """Return what came in under ``key``, the provider's name for this piece of work. If nothing
        did so far, the job is parked: it holds no slot, no task and no memory, this function is
        left at once, and run again from the top when the answer is there. So whatever comes before
        goes through ``once``. After ``timeout_s`` (0: what the state allows) the attempt fails.

        With ``source`` the webhook of that source brings it (``callback_url`` is where it goes),
        also one that comes before the job has parked. One webhook goes to one attempt: a key that
        another job awaits fails this one. Without it, role ``workflow`` answers at
        ``POST /jobs/{id}/answers/{key}``; ask people and scripts by ``question``."""
        return self._answer(key, timeout_s, source)

    async def save(
        self, name: str, content: bytes | str, *, asset_type: str, artifact: str = ""
    ) -> Asset:
        """Put a file into the job's library: ``content`` is the bytes, or the path of a file that
        is moved there. It belongs to the job as soon as the attempt is done; nobody ever sees half
        of it. With ``artifact`` that artifact's new value is the address of the file."""
        kept = await self._host.block(lambda: self._shelf.put(name, content))
        return self._took(kept, asset_type, artifact)

    async def checkpoint(self, **artifacts: Any) -> None:
        """These artifacts, and every file that was saved so far, are the job's when this returns,
        whatever becomes of the attempt. The next one finds them, also after a failure."""
        await self._host.checkpoint(self._made(artifacts))

    async def file(self, artifact: str) -> str:
        """The path of the file behind an artifact, checked against size and digest. One that is
        missing or damaged ends the attempt for good: CORRUPT_INPUT."""
        if artifact in self._given.away:
            return (await self.asset(self._given.away[artifact])).path
        return await self._host.block(lambda: self._file(artifact))

    async def download(
        self,
        url: str,
        name: str = "download",
        *,
        max_size: int | None = None,
        types: Iterable[str] | None = None,
        headers: Mapping[str, str] | None = None,
        patience: Patience = PATIENCE,
    ) -> Fetched:
        """Fetch a file into the scratch folder, whole or not at all; ``save`` puts it into the
        library. It is refused when it leads inside, is larger than ``max_size`` (or than the
        operator allows), or does not look like one of ``types``, as ``{"image/png"}``."""
        wanted = wanted_of(url, name, max_size, types, headers, patience)
        return _of(Fetched, await self._host.ask(wanted))

    async def asset(self, which: str) -> Held:
        """A file of the job's owner, by its id or its address (``/assets/ID/content``), checked
        against size and digest. One that is not there or not theirs ends the attempt for good:
        ASSET_NOT_FOUND; a damaged one: CORRUPT_INPUT."""
        return _of(Held, await self._host.ask(Find(asset_id_of(which))))

    async def library(self, asset_type: str | None = None, limit: int = 1000) -> list[Asset]:
        """The files of the job's owner, over all jobs, newest first."""
        return list(_of(Found, await self._host.ask(Browse(asset_type, limit))).assets)

    async def artifact(self, name: str, version: int) -> Any:
        """An artifact of this job in one of its versions; ``artifacts`` has the current ones. One
        that there is not ends the attempt for good: ARTIFACT_NOT_FOUND."""
        return _of(Recalled, await self._host.ask(Recall(name, version))).value


class PlainContext(_Known[P], PlainQuestioning, SubmitsJobsPlainly):
    """The same for plain functions, in a process or a thread of their own: the same verbs, which
    return when they are done."""

    def __init__(
        self, given: Given, host: Host, params: P, wait: Callable[[Coroutine[Any, Any, Any]], Any]
    ) -> None:
        super().__init__(given, host, params)
        self._wait = wait

    @property
    def http(self) -> PlainHttp:
        return PlainHttp(self._exchanged, self._wait)

    def progress(self, percent: int | None = None, message: str | None = None) -> None:
        self._wait(self._host.progress(percent, message))

    def heartbeat(self) -> None:
        self._wait(self._host.progress(None, None))

    def once(self, name: str, work: Callable[[], R]) -> R:
        if name not in self._kept:
            value = self._keepable(name, work())
            self._wait(self._host.keep(name, value))
            self._kept[name] = value
        result: R = self._kept[name]
        return result

    def await_callback(self, key: str, timeout_s: float = 0, *, source: str = "") -> Any:
        return self._answer(key, timeout_s, source)

    def save(
        self, name: str, content: bytes | str, *, asset_type: str, artifact: str = ""
    ) -> Asset:
        return self._took(self._shelf.put(name, content), asset_type, artifact)

    def checkpoint(self, **artifacts: Any) -> None:
        self._wait(self._host.checkpoint(self._made(artifacts)))

    def file(self, artifact: str) -> str:
        if artifact in self._given.away:
            return self.asset(self._given.away[artifact]).path
        return self._file(artifact)

    def download(
        self,
        url: str,
        name: str = "download",
        *,
        max_size: int | None = None,
        types: Iterable[str] | None = None,
        headers: Mapping[str, str] | None = None,
        patience: Patience = PATIENCE,
    ) -> Fetched:
        wanted = wanted_of(url, name, max_size, types, headers, patience)
        return _of(Fetched, self._wait(self._host.ask(wanted)))

    def asset(self, which: str) -> Held:
        return _of(Held, self._wait(self._host.ask(Find(asset_id_of(which)))))

    def library(self, asset_type: str | None = None, limit: int = 1000) -> list[Asset]:
        return list(_of(Found, self._wait(self._host.ask(Browse(asset_type, limit)))).assets)

    def artifact(self, name: str, version: int) -> Any:
        return _of(Recalled, self._wait(self._host.ask(Recall(name, version)))).value


def traced(exchange: Exchange, traceparent: str) -> Exchange:
    """Tell the remote side which attempt asks; a header of the stage's own stays."""
    if not traceparent or any(name.lower() == HEADER for name in exchange.headers):
        return exchange
    headers = {**exchange.headers, HEADER: traceparent}
    return msgspec.structs.replace(exchange, headers=headers)


def wanted_of(
    url: str,
    name: str,
    max_size: int | None,
    types: Iterable[str] | None,
    headers: Mapping[str, str] | None,
    patience: Patience,
) -> Download:
    kinds = None if types is None else tuple(sorted(types))
    return Download(url, checked_name(name), max_size, kinds, dict(headers or {}), patience)


def asset_id_of(which: str) -> str:
    """Read an asset's id from an id, or from the address of the file, with or without its host."""
    match = CONTENT.fullmatch(which)
    return match[1] if match else which


def _of(kind: type[A], answer: Answer) -> A:
    assert isinstance(answer, kind), f"asked for {kind.__name__}, answered {answer!r}"
    return answer


def _written(name: str, value: Any) -> bytes:
    try:
        data = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise PermanentFailure(
            "CANNOT_KEEP", f"{name!r} does not fit into JSON", excerpt=str(error)
        ) from error
    return data


def given_of(context: _Known[Any]) -> Given:
    """Tell what this context was made from, to make another form of it."""
    return context._given
