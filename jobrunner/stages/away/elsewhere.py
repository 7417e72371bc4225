"""The seam between the service and a cluster that runs stages for it."""

from msgspec import Struct

from jobrunner.core.messages import Ended
from jobrunner.stages.away.stage import AwayStage
from jobrunner.stages.given import Given, Host
from jobrunner.stages.outcomes import failed

LACK = 'a cluster, and none is set; set [cluster] scheduler, or bind its place to "here"'


class Elsewhere:
    """Gives jobs seats there, and runs their stages in them. As it stands here it is that of a
    service without a cluster: nothing runs there."""

    @property
    def free(self) -> int:
        """How many stages could begin there now."""
        return 0

    def lack(self, stage: AwayStage) -> str:
        """Name what this stage is short of there; empty when it may begin."""
        return LACK

    def take(self, job_id: str, stage: AwayStage) -> None:
        """Give the job a seat, if one is free that fits."""

    def give_back(self, job_id: str) -> None:
        """The job needs its seat no longer; it is free as soon as nothing runs in it."""

    def where(self, job_id: str) -> str:
        """Name the worker of this job's seat; empty without one."""
        return ""

    def seats(self) -> dict[str, int]:
        """Count the workers there, by how they stand."""
        return {}

    async def run(
        self, stage: AwayStage, given: Given, kind: type[Struct] | None, host: Host
    ) -> Ended:
        """How the attempt ended. Cancellation passes through when nothing of the stage is left."""
        return failed("STAGE_UNAVAILABLE", f"stage {stage.name!r} waits for {LACK}")


NOWHERE = Elsewhere()
