"""The witness: everything that callers were told, stages did and providers got. At the end it is
held against the file, and whatever does not fit is a fault, as a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from jobrunner.core.job import Snapshot

FAULTS_MAX = 20


class Seen(Struct, frozen=True):
    """A job as somebody was shown it: it can never have been otherwise."""

    version: int
    status: str


class SubmissionKey(Struct, frozen=True):
    """The mark that makes two submissions one: a client's own key. Without ``body``: the key that a
    job was made under, whatever was submitted."""

    user_id: str
    key: str
    body: str = ""


class Witness:
    def __init__(self) -> None:
        self.faults: list[str] = []
        self.shown: dict[str, set[Seen]] = {}
        self.jobs: dict[str, Snapshot] = {}
        self.keyed: dict[SubmissionKey, dict[str, None]] = {}
        self.deleted: dict[str, None] = {}
        self.events: dict[tuple[str, str], int] = {}
        self.calls: dict[tuple[str, str, str], dict[str, None]] = {}
        self.at_work: dict[tuple[int, str], int] = {}
        self.runs = 0

    def fault(self, text: str) -> None:
        if text not in self.faults and len(self.faults) < FAULTS_MAX:
            self.faults.append(text)

    def show(self, job: Snapshot) -> None:
        """Note that somebody was shown this job."""
        self.shown.setdefault(job.id, set()).add(Seen(job.version, job.status))
        known = self.jobs.get(job.id)
        if known is None or (known.version, known.beat) <= (job.version, job.beat):
            self.jobs[job.id] = job

    def been(self, status: str) -> int:
        """How many jobs were seen in this state: where nobody has been is where to go."""
        return sum(any(one.status == status for one in seen) for seen in self.shown.values())

    def submitted(self, user_id: str, key: str | None, body: str, job: Snapshot) -> None:
        """Note that somebody was told that this is the job of their submission."""
        if key is not None:
            self.keyed.setdefault(SubmissionKey(user_id, key, body), {})[job.id] = None
        if job.idempotency_key is not None:
            self.keyed.setdefault(SubmissionKey(user_id, job.idempotency_key), {})[job.id] = None

    def applied(self, job_id: str, event_id: str, version: int) -> None:
        """A callback was said to have had its effect just now, and not before."""
        known = self.events.setdefault((job_id, event_id), version)
        if known != version:
            self.fault(f"job {job_id}: event {event_id} had an effect at version {known}, and "
                       f"another at version {version}")  # fmt: skip

    def called(self, job_id: str, state: str, run_id: str, key: str) -> None:
        """A provider was called for this piece of work, under this key."""
        keys = self.calls.setdefault((job_id, state, run_id), {})
        keys[key] = None
        if len(keys) > 1:
            self.fault(f"job {job_id}: a provider saw {state} of one run under {len(keys)} keys: "
                       f"{', '.join(keys)}")  # fmt: skip

    @contextmanager
    def working(self, life: int, job_id: str, state: str) -> Iterator[None]:
        """A stage is at work on this job; in one process there is never another one beside it."""
        self.runs += 1
        count = self.at_work.get((life, job_id), 0) + 1
        self.at_work[life, job_id] = count
        if count > 1:
            self.fault(f"job {job_id}: {count} stages work on it at once, in {state}")
        try:
            yield
        finally:
            self.at_work[life, job_id] -= 1

    def logged(self, event: str, fields: dict[str, Any]) -> None:
        """Some lines of the log are confessions."""
        if event == "actor.crashed":
            text = str(fields.get("traceback") or fields.get("error"))
            self.fault(f"job {fields.get('job_id')}: {event}: {text}")
