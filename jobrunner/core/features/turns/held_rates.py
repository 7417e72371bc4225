"""A provider's "too many requests" holds back the rate, and costs the attempt nothing.

Only a stage that declares a rate is put back in line for it. How often is bounded, so that a
provider which refuses for ever ends in the declared failure.
"""

from jobrunner.core.attempts import amend, attempt_of, end, open_attempt
from jobrunner.core.draft import Draft
from jobrunner.core.features.turns.rates import HELD_BACK, LIMITED, HoldTerms
from jobrunner.core.job import Failure


def put_back(draft: Draft, failure: Failure) -> bool:
    """Open the attempt anew, in its old place in line, if it ended for want of a turn outside.
    It keeps what it had worked out and been told, and no retry is spent."""
    terms, over = draft.case.facts.holds, attempt_of(draft.job)
    if terms is None or not _may_wait(terms, failure, over.held_back):
        return False
    end(draft, HELD_BACK, failure)
    open_attempt(draft, draft.job.status)
    told = {"kept": over.kept, "answers": over.answers, "questions": over.questions}
    amend(draft, **told, held_back=over.held_back + 1)
    if draft.job.line_at is not None:
        draft.set(line_at=over.opened_at)
    draft.log("job.held_back", rates=list(terms.rates), times=over.held_back + 1)
    return True


def _may_wait(terms: HoldTerms, failure: Failure, times: int) -> bool:
    limited = failure.code == LIMITED and failure.retryable
    return bool(terms.rates) and limited and times < terms.times
