"""The seam between the service and a cluster that runs stages for it."""

from typing import Protocol

from msgspec import Struct

from jobrunner.core.messages import Ended
from jobrunner.stages.away.stage import AwayStage
from jobrunner.stages.given import Given, Host
from jobrunner.stages.outcomes import failed

LACK = 'a cluster, and none is set; set [cluster] scheduler, or bind its place to "here"'


class Elsewhere(Protocol):
    """Gives jobs seats there, and runs their stages in them."""

    @property
    def free(self) -> int:
        """How many stages could begin there now."""
        ...

    def lack(self, stage: AwayStage) -> str:
        """Name what this stage is short of there; empty when it may begin."""
        ...

    def take(self, job_id: str, stage: AwayStage) -> None:
        """Give the job a seat, if one is free that fits."""
        ...

    def give_back(self, job_id: str) -> None:
        """The job needs its seat no longer; it is free as soon as nothing runs in it."""
        ...

    def where(self, job_id: str) -> str:
        """Name the worker of this job's seat; empty without one."""
        ...

    def seats(self) -> dict[str, int]:
        """Count the workers there, by how they stand."""
        ...

    async def run(
        self, stage: AwayStage, given: Given, kind: type[Struct] | None, host: Host
    ) -> Ended:
        """How the attempt ended. Cancellation passes through when nothing of the stage is left."""
        ...


class _Nowhere:
    """Stands for the cluster where none is set: nothing runs there."""

    free = 0

    def lack(self, stage: AwayStage) -> str:
        return LACK

    def take(self, job_id: str, stage: AwayStage) -> None:
        return

    def give_back(self, job_id: str) -> None:
        return

    def where(self, job_id: str) -> str:
        return ""

    def seats(self) -> dict[str, int]:
        return {}

    async def run(
        self, stage: AwayStage, given: Given, kind: type[Struct] | None, host: Host
    ) -> Ended:
        return failed("STAGE_UNAVAILABLE", f"stage {stage.name!r} waits for {LACK}")


NOWHERE: Elsewhere = _Nowhere()
