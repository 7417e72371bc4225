"""Failures of attempts: another attempt follows, or the declared way out.

The three places where retries may live (``workflow.Retry``) differ only here. A failure that is
reported by *moving* the job (an orchestrator's word, an operator's hand) is taken at that word,
except for the round trip, whose edge is the retry.
"""

from msgspec.structs import replace

from jobrunner.core.attempts import backoff_s, count_failure, open_attempt, quit_attempt
from jobrunner.core.declaration.workflow import Retry, State
from jobrunner.core.draft import Cause, Draft
from jobrunner.core.failed_stage import named
from jobrunner.core.job import Failure
from jobrunner.core.steps import go_on, say_again, step, walk
from jobrunner.errors import Refused

WORKER_LOST = "WORKER_LOST"


def fail(draft: Draft, failure: Failure, cause: Cause) -> Refused | None:
    """Follow a failure of the open attempt, by its own report, by a clock, or with its worker, as
    far as the engine takes the job at once."""
    state = draft.state
    why = named(draft, failure)
    cause = replace(cause, failure=why)
    if state.retry is None:
        quit_attempt(draft, cause)
        return go_on(draft, cause)
    if state.retry.mode == "round_trip":
        return round_trip(draft, state.retry, why, cause)
    failures = count_failure(draft, state.name) if failure.retryable else 0
    if failure.retryable and failures < state.retry.max:
        refused = _again(draft, state, state.retry, failures, cause)
        return refused or go_on(draft, replace(cause, failure=None))
    return _give_up(draft, state.retry, why, cause)


def round_trip(draft: Draft, retry: Retry, failure: Failure, cause: Cause) -> Refused | None:
    """Count first, then compare: ``max`` runs in all. Either a timer brings the job back, or it
    walks on to the end in the same commit."""
    cause = replace(cause, failure=failure)
    failures = count_failure(draft, draft.job.status)
    if refused := step(draft, retry.failed[0], cause):
        return refused
    if failure.retryable and failures < retry.max:
        _come_back(draft, retry, failures, failure)
        return go_on(draft, cause)
    over = Cause("engine", _verdict(failure), failure)
    return walk(draft, retry.failed[1:], over) or go_on(draft, over)


def reenter(draft: Draft, cause: Cause) -> Refused | None:
    """Take a repeat of the status to mean: the same stage again. It spends budget only when it
    carries a failure; without one it is a sign of life that history shows."""
    state, retry, failure = draft.state, draft.state.retry, cause.failure
    assert retry is not None, f"{state.name} repeats without a retry policy"
    if failure is None:
        return say_again(draft, cause)
    failures = count_failure(draft, state.name) if failure.retryable else retry.max
    if failures < retry.max:
        return _again(draft, state, retry, failures, cause)
    return say_again(draft, cause) or walk(draft, retry.failed, cause)


def _again(draft: Draft, state: State, retry: Retry, failures: int, cause: Cause) -> Refused | None:
    delay_s = _delay_s(draft, retry, failures, cause.failure)
    not_before = draft.now + int(delay_s * 1000)
    draft.log(
        "job.retry_scheduled",
        attempt=draft.job.attempts + 1,
        delay_s=round(delay_s, 3),
        failure_code=cause.failure.code if cause.failure else None,
    )
    if retry.mode == "self_edge":
        return step(draft, state.name, replace(cause, not_before=not_before))
    quit_attempt(draft, cause)
    open_attempt(draft, state.name, not_before)
    return None


def _give_up(draft: Draft, retry: Retry, failure: Failure, cause: Cause) -> Refused | None:
    over = replace(cause, reason=cause.reason or _verdict(failure))
    quit_attempt(draft, over)
    return walk(draft, retry.failed, over) or go_on(draft, over)


def _verdict(failure: Failure) -> str:
    return "exhausted" if failure.retryable else "permanent"


def _come_back(draft: Draft, retry: Retry, failures: int, failure: Failure) -> None:
    due_at = draft.now + int(_delay_s(draft, retry, failures, failure) * 1000)
    draft.arm("retry", due_at)
    draft.set(next_attempt_at=due_at)
    draft.log(
        "job.retry_scheduled", attempt=draft.job.attempts + 1, delay_s=(due_at - draft.now) / 1000
    )


def _delay_s(draft: Draft, retry: Retry, failures: int, failure: Failure | None) -> float:
    asked_s = failure.retry_after_s if failure else 0
    return backoff_s(retry, failures, draft.case.moment.jitter, asked_s)
