"""The verbs of a context that are about children: to submit a job, and to wait for jobs."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.core.declaration.spelling import NAME
from jobrunner.core.features.families.parentage import JobsAwaited, Until
from jobrunner.errors import PermanentFailure
from jobrunner.stages.given import Host
from jobrunner.stages.outcomes import Parked
from jobrunner.stages.requests import (
    JobOutcome,
    JobOutcomes,
    JobsSeen,
    JobSubmission,
    JobSubmitted,
    OutcomesAsked,
)

KEY_MAX = 200
PAGE = 100
UNTIL: tuple[Until, ...] = ("ended", "first_failure", "succeeded")


class SubmitsJobs:
    """The part of a context that awaits."""

    _host: Any

    async def submit(
        self,
        workflow: str,
        params: Struct | Mapping[str, Any],
        *,
        key: str,
        job_type: str = "",
        priority: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """Submit a job of a workflow that this one declares among its ``children``, for the same
        user, and return its id. ``key`` tells the children of a run apart: the same one leads to
        the same job, in every attempt and however often it is asked for. Without a ``priority`` it
        is that of this job."""
        asked = submission_of(workflow, params, key, job_type, priority, labels)
        return await submitted(self._host, asked)

    async def await_jobs(
        self,
        jobs: Iterable[str],
        *,
        at_least: int | None = None,
        until: Until = "ended",
        timeout_s: float = 0,
    ) -> list[JobOutcome]:
        """Return how these children stand, when ``at_least`` of them (None: all) have ended. If
        they have not, the job is parked as with ``await_callback``: this function is left at once
        and run again from the top. With ``until="first_failure"`` it returns as soon as one has
        not ended well; with ``"succeeded"`` only good ends count, and it returns too when there
        cannot be so many any more. After ``timeout_s`` (0: what the state allows) the attempt
        fails."""
        return await awaited(self._host, jobs_of(jobs, at_least, until), timeout_s)


class SubmitsJobsPlainly:
    """The same for plain functions."""

    _host: Any
    _wait: Callable[[Coroutine[Any, Any, Any]], Any]

    def submit(
        self,
        workflow: str,
        params: Struct | Mapping[str, Any],
        *,
        key: str,
        job_type: str = "",
        priority: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> str:
        asked = submission_of(workflow, params, key, job_type, priority, labels)
        found: str = self._wait(submitted(self._host, asked))
        return found

    def await_jobs(
        self,
        jobs: Iterable[str],
        *,
        at_least: int | None = None,
        until: Until = "ended",
        timeout_s: float = 0,
    ) -> list[JobOutcome]:
        wanted = jobs_of(jobs, at_least, until)
        found: list[JobOutcome] = self._wait(awaited(self._host, wanted, timeout_s))
        return found


def submission_of(
    workflow: str,
    params: Struct | Mapping[str, Any],
    key: str,
    job_type: str,
    priority: int | None,
    labels: Mapping[str, str] | None,
) -> JobSubmission:
    """Raises: PermanentFailure, for what no job can be made of."""
    if not (_is_text(key) and 0 < len(key) <= KEY_MAX and key.isprintable()):
        raise _bad(f"the key of a child has 1 to {KEY_MAX} printable characters, not {key!r:.80}")
    if not (_is_text(workflow) and NAME.fullmatch(workflow)):
        raise _bad(f"{workflow!r:.80} is no name of a workflow")
    if priority is not None and not -100 <= priority <= 100:
        raise _bad(f"a priority is a number from -100 to 100, not {priority!r:.80}")
    try:
        given = msgspec.to_builtins(params)
        marks = {str(name): str(value) for name, value in (labels or {}).items()}
    except (TypeError, ValueError, RecursionError) as error:
        raise _bad("the params of a child do not fit into JSON") from error
    if not isinstance(given, dict):
        raise _bad("the params of a child are a struct or a dict")
    return JobSubmission(workflow, given, key, job_type, priority, marks)


def jobs_of(jobs: Iterable[str], at_least: int | None, until: Until) -> JobsAwaited:
    """Raises: PermanentFailure, for what cannot be waited for."""
    ids = tuple(dict.fromkeys(jobs))
    if not all(_is_text(one) and NAME.fullmatch(one) for one in ids):
        raise _bad("await_jobs takes ids of jobs, as submit returns them")
    if until not in UNTIL:
        raise _bad(f"await_jobs(until={until!r:.80}): one of {', '.join(UNTIL)}")
    wanted = len(ids) if at_least is None else at_least
    if not 0 <= wanted <= len(ids):
        raise _bad(f"await_jobs(at_least={at_least!r:.80}) of {len(ids)} jobs")
    return JobsAwaited(ids, wanted, until)


async def submitted(host: Host, asked: JobSubmission) -> str:
    answer = await host.ask(asked)
    assert isinstance(answer, JobSubmitted), f"{answer!r} is no answer to a submission"
    return answer.job_id


async def awaited(host: Host, wanted: JobsAwaited, timeout_s: float) -> list[JobOutcome]:
    """Raises: Parked."""
    answer = await host.ask(wanted)
    assert isinstance(answer, JobsSeen), f"{answer!r} is no answer to a wait"
    if not answer.is_met:
        raise Parked("", timeout_s, jobs=wanted)
    found: list[JobOutcome] = []
    for first in range(0, len(wanted.ids), PAGE):
        page = await host.ask(OutcomesAsked(wanted.ids[first : first + PAGE]))
        assert isinstance(page, JobOutcomes), f"{page!r} is no answer to how jobs stand"
        found += page.jobs
    return found


def _is_text(given: object) -> bool:
    return isinstance(given, str)


def _bad(text: str) -> PermanentFailure:
    return PermanentFailure("BAD_REQUEST", text)
