"""What follows when an attempt fails: another one, or the declared way out.

The three places where retries may live (``workflow.Retry``) differ only here. A failure that is
reported by *moving* the job (an orchestrator's word, an operator's hand) is taken at that word,
except for the round trip, whose edge is the retry.
"""

from jobrunner.core.attempts import backoff_s, count_failure, open_attempt, quit_attempt
from jobrunner.core.declaration.workflow import Retry, State, Trigger
from jobrunner.core.draft import Draft
from jobrunner.core.failed_stage import named
from jobrunner.core.job import Failure
from jobrunner.core.steps import say_again, step, walk
from jobrunner.errors import Refused


def fail(draft: Draft, failure: Failure, trigger: Trigger) -> Refused | None:
    """The open attempt failed: by its own report, by a clock, or with its worker."""
    state = draft.state
    draft.failure = named(draft, failure)
    if state.retry is None:
        quit_attempt(draft)
        return None
    if state.retry.mode == "round_trip":
        return round_trip(draft, state.retry, trigger)
    failures = count_failure(draft, state.name) if failure.retryable else 0
    if failure.retryable and failures < state.retry.max:
        return _again(draft, state, state.retry, failures, trigger)
    return _give_up(draft, state.retry, trigger)


def round_trip(draft: Draft, retry: Retry, trigger: Trigger) -> Refused | None:
    """Count first, then compare: ``max`` runs in all. Either a timer brings the job back, or it
    walks on to the end in the same commit."""
    failure = draft.failure
    assert failure is not None, "a round trip begins with a failure"
    failures = count_failure(draft, draft.job.status)
    if refused := step(draft, retry.failed[0], trigger):
        return refused
    if failure.retryable and failures < retry.max:
        _come_back(draft, retry, failures)
        return None
    draft.reason = "exhausted" if failure.retryable else "permanent"
    return walk(draft, retry.failed[1:], "engine")


def reenter(draft: Draft, trigger: Trigger) -> Refused | None:
    """A repeat of the status that means: the same stage again. It spends budget only when it
    carries a failure; without one it is a sign of life that history shows."""
    state, retry = draft.state, draft.state.retry
    assert retry is not None, f"{state.name} repeats without a retry policy"
    if draft.failure is None:
        return say_again(draft, trigger)
    failures = count_failure(draft, state.name) if draft.failure.retryable else retry.max
    if failures < retry.max:
        return _again(draft, state, retry, failures, trigger)
    if refused := say_again(draft, trigger):
        return refused
    return walk(draft, retry.failed, trigger)


def _again(
    draft: Draft, state: State, retry: Retry, failures: int, trigger: Trigger
) -> Refused | None:
    delay_s = _delay_s(draft, retry, failures)
    draft.not_before = draft.now + int(delay_s * 1000)
    draft.log(
        "job.retry_scheduled",
        attempt=draft.job.attempts + 1,
        delay_s=round(delay_s, 3),
        failure_code=draft.failure.code if draft.failure else None,
    )
    if retry.mode == "self_edge":
        refused = step(draft, state.name, trigger)
        draft.failure = None
        return refused
    quit_attempt(draft)
    draft.failure = None
    open_attempt(draft, state.name, draft.not_before)
    return None


def _give_up(draft: Draft, retry: Retry, trigger: Trigger) -> Refused | None:
    assert draft.failure is not None
    draft.reason = draft.reason or ("exhausted" if draft.failure.retryable else "permanent")
    if not retry.failed:
        quit_attempt(draft)
        return None
    quit_attempt(draft)
    return walk(draft, retry.failed, trigger)


def _come_back(draft: Draft, retry: Retry, failures: int) -> None:
    due_at = draft.now + int(_delay_s(draft, retry, failures) * 1000)
    draft.arm("retry", due_at)
    draft.set(next_attempt_at=due_at)
    draft.log(
        "job.retry_scheduled", attempt=draft.job.attempts + 1, delay_s=(due_at - draft.now) / 1000
    )


def _delay_s(draft: Draft, retry: Retry, failures: int) -> float:
    asked_s = draft.failure.retry_after_s if draft.failure else 0
    return backoff_s(retry, failures, draft.moment.jitter, asked_s)
