"""Children of a stage that runs alone: each ends at once, as the test says, or well."""

from collections.abc import Callable

from jobrunner.core.features.families.parentage import JobsAwaited
from jobrunner.errors import PermanentFailure
from jobrunner.stages.requests import (
    JobOutcome,
    JobOutcomes,
    JobsSeen,
    JobSubmission,
    JobSubmitted,
    OutcomesAsked,
)

Ending = Callable[[JobSubmission], JobOutcome]


def ends_well(asked: JobSubmission) -> JobOutcome:
    return JobOutcome("", asked.key, "done", "completed")


class TrialChildren:
    """``ending`` says how a child ends; one whose ``ended_as`` is empty goes on for good."""

    def __init__(self, ending: Ending = ends_well) -> None:
        self._ending = ending
        self.submitted: dict[str, JobSubmission] = {}

    def answer(
        self, question: JobSubmission | JobsAwaited | OutcomesAsked
    ) -> JobSubmitted | JobsSeen | JobOutcomes:
        match question:
            case JobSubmission():
                self.submitted.setdefault(_id(question.key), question)
                return JobSubmitted(_id(question.key))
            case JobsAwaited():
                ends = [self._outcome(one) for one in question.ids]
                well = sum(one.well for one in ends)
                ill = sum(bool(one.ended_as) for one in ends) - well
                return JobsSeen(question.is_met(well, ill))
            case OutcomesAsked(ids):
                return JobOutcomes(tuple(self._outcome(one) for one in ids))

    def _outcome(self, job_id: str) -> JobOutcome:
        if (asked := self.submitted.get(job_id)) is None:
            raise PermanentFailure("NOT_ITS_CHILD", f"{job_id} is no child of this job")
        told = self._ending(asked)
        return JobOutcome(
            job_id, asked.key, told.status, told.ended_as, told.result, told.artifacts,
            told.failure_code, told.failure_message, told.deleted,
        )  # fmt: skip


def _id(key: str) -> str:
    return f"child-{key}"
