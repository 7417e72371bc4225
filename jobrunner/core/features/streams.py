"""Answers for those who follow jobs: rows of history, of one job or of all."""

from msgspec import Struct

from jobrunner.core.job import Snapshot


class HistoryRow(Struct, frozen=True):
    seq: int
    job_id: str
    version: int
    hop: int
    from_status: str | None
    to_status: str
    trigger: str
    actor: str
    reason: str | None
    run_id: str
    event_id: str | None
    at: int


class Story(Struct, frozen=True):
    """A job and what befell it after some version, of one moment. ``whole`` is False when there is
    more than was asked for."""

    job: Snapshot
    rows: tuple[HistoryRow, ...]
    whole: bool = True


class Moved(Struct, frozen=True):
    """A transition among those of all jobs. ``rests`` when it brought its job to rest, and the job
    still rests there."""

    row: HistoryRow
    workflow: str
    user_id: str
    rests: bool


class News(Struct, frozen=True):
    """Transitions of all jobs, in the order of their commits. ``through`` is the last sequence
    number that was looked at, whether it fitted the question or not."""

    told: tuple[Moved, ...]
    through: int


class NewsQuestion(Struct, frozen=True):
    """``user_id`` and ``workflow`` None: of anybody, of any. ``after`` is a sequence number;
    ``workflows`` are the only ones that the caller may hear of (none named: all)."""

    after: int
    user_id: str | None = None
    workflow: str | None = None
    limit: int = 100
    workflows: tuple[str, ...] = ()
