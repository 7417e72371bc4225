"""The conversations about batches. One of very many jobs is sent in several calls, each under a key
that follows from that of the batch, so a line that breaks costs the call that was on it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from jobrunner.client.records import BatchEntryRecord, BatchRecord
from jobrunner.client.talk import FreshKey, Now, Rest, Talk
from jobrunner.client.talks.asking import PagedList, at, read_of, record_in, written

JOBS_AT_ONCE = 1_000
LOOK_AGAIN_S = 0.5

Jobs = Iterable[Mapping[str, Any]]


def submit_batch(
    jobs: Jobs, *, key: str | None = None, notify_url: str | None = None, keep_open: bool = False
) -> Talk[BatchRecord]:
    """Make many jobs: each is a mapping with ``workflow``, ``params`` and whatever a submission
    has, and a ``key`` of its own in the batch if it wants one. Each is accepted or refused by
    itself: see ``results``. Without a ``key`` the batch has one of its own. With ``keep_open`` it
    takes more until it is closed."""
    first, *more = _pieces(jobs)
    key = key or (yield FreshKey())
    body: dict[str, Any] = {"jobs": first, "key": key, "open": keep_open or bool(more)}
    if notify_url is not None:
        body["notify_url"] = notify_url
    made = record_in((yield written("POST", "/batches", body, repeatable=True)), BatchRecord)
    for number, piece in enumerate(more, 1):
        close = not keep_open and number == len(more)
        grown = yield from _added(made.id, piece, f"{key}-{number}", close)
        made = replace(grown, results=[*made.results, *grown.results], replayed=made.replayed)
    return made


def add_to_batch(
    batch_id: str, jobs: Jobs, *, key: str | None = None, close: bool = False
) -> Talk[BatchRecord]:
    """Add jobs to an open batch; with ``close`` they are the last."""
    pieces = _pieces(jobs)
    key = key or (yield FreshKey())
    results = []
    for number, piece in enumerate(pieces, 1):
        last = close and number == len(pieces)
        grown = yield from _added(batch_id, piece, f"{key}-{number}", last)
        results += grown.results
    return replace(grown, results=results)


def batch(batch_id: str) -> Talk[BatchRecord]:
    """Read how far a batch is."""
    return record_in((yield read_of(at("batches", batch_id))), BatchRecord)


def wait_batch(batch_id: str, *, timeout_s: float | None = None) -> Talk[BatchRecord]:
    """Read a batch once it has ended, or as it stands when the time is up: see its ``ended``."""
    began: float = yield Now()
    while True:
        found = yield from batch(batch_id)
        now: float = yield Now()
        if found.ended or (timeout_s is not None and now - began >= timeout_s):
            return found
        yield Rest(LOOK_AGAIN_S)


def close_batch(batch_id: str) -> Talk[BatchRecord]:
    """Take no more jobs into a batch."""
    return (yield from _told(batch_id, "close"))


def cancel_batch(batch_id: str) -> Talk[BatchRecord]:
    """Close a batch, and cancel those of its jobs that go on."""
    return (yield from _told(batch_id, "cancel"))


def rerun_batch(batch_id: str, *, key: str | None = None) -> Talk[BatchRecord]:
    """Make a batch of its jobs that did not end well, done again; 1,000 in a call."""
    path = at("batches", batch_id, "rerun")
    body = {"key": key or (yield FreshKey())}
    return record_in((yield written("POST", path, body, repeatable=True)), BatchRecord)


def delete_batch(batch_id: str) -> Talk[None]:
    """Forget a batch that has ended; its jobs stay."""
    yield replace(read_of(at("batches", batch_id)), method="DELETE", repeatable=False)


def batches(*, user_id: str | None = None, page: int = 100) -> PagedList[BatchEntryRecord]:
    """List batches, newest first."""
    query = [("limit", str(page)), *([("user_id", user_id)] if user_id else [])]
    return PagedList("/batches", BatchEntryRecord, "batches", tuple(query))


def _told(batch_id: str, act: str) -> Talk[BatchRecord]:
    """Said twice, it is said once."""
    path = at("batches", batch_id, act)
    return record_in((yield written("POST", path, {}, repeatable=True)), BatchRecord)


def _added(
    batch_id: str, jobs: Sequence[Mapping[str, Any]], key: str, close: bool
) -> Talk[BatchRecord]:
    body = {"jobs": jobs, "key": key, "close": close}
    path = at("batches", batch_id, "jobs")
    return record_in((yield written("POST", path, body, repeatable=True)), BatchRecord)


def _pieces(jobs: Jobs) -> list[list[Mapping[str, Any]]]:
    every = list(jobs)
    firsts = range(0, max(len(every), 1), JOBS_AT_ONCE)
    return [every[first : first + JOBS_AT_ONCE] for first in firsts]
