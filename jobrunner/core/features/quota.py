"""Quotas of a user in a workflow: refused at the door, and asserted in the commit of the birth."""

from jobrunner.core.decision import QuotaAssert
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts
from jobrunner.core.messages import Submit
from jobrunner.errors import Refused


def over_quota(quota: QuotaAssert, facts: Facts) -> Refused | None:
    for name, limit, current in (
        ("open jobs", quota.open_jobs, facts.open_jobs),
        ("jobs a minute", quota.per_minute, facts.last_minute),
        ("jobs a day", quota.per_day, facts.last_day),
    ):
        if limit and current >= limit:
            return Refused(
                "QUOTA_EXCEEDED",
                f"{current} of {limit} {name} are used up",
                limit=limit,
                current=current,
            )
    return None


def quota_assert(definition: Definition, submit: Submit) -> QuotaAssert | None:
    """A stage submits as fast as it works: only how many there are is counted for its children."""
    quota = definition.workflow.quota
    per_minute = quota.per_minute if submit.parent is None else 0
    if not (quota.open_jobs or per_minute or quota.per_day):
        return None
    return QuotaAssert(quota.open_jobs, per_minute, quota.per_day)
