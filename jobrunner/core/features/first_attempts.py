"""First attempts that begin in the commit that makes their job: somebody waits for its end."""

from jobrunner.core.draft import Draft
from jobrunner.core.engine_events import keep_the_slot, leave_the_queue
from jobrunner.core.features.pauses import stage_ahead
from jobrunner.errors import Refused


def begin_at_once(draft: Draft) -> Refused | None:
    """Begin the attempt of a newborn that stands in line, where a slot is lent to it."""
    lent, job = draft.case.facts.lent, draft.job
    if not lent or job.line_at is None or stage_ahead(draft.definition, job) not in lent:
        return None
    refused = leave_the_queue(draft)
    if refused is None:
        keep_the_slot(draft)
    return refused
