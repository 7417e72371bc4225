"""Names the stages that run here, to say why the service is slow or does not stop.

A stage in the loop is trusted, and can break two things for everybody: it may block the loop, and
it may go on though it was told to stop. Which of them blocks cannot be known from inside; those
that could are few, and are named.
"""

from jobrunner.core.job import Attempt
from jobrunner.stages import Stage

Place = tuple[str, int]


class Roster:
    def __init__(self) -> None:
        self._running: dict[Place, tuple[str, Stage | None]] = {}
        self._deaf: set[Place] = set()

    def began(self, job_id: str, attempt: Attempt, stage: Stage | None) -> None:
        self._running[job_id, attempt.serial] = attempt.stage, stage

    def ended(self, job_id: str, attempt: Attempt) -> None:
        place = job_id, attempt.serial
        self._running.pop(place, None)
        self._deaf.discard(place)

    def deaf(self, job_id: str, serial: int) -> str | None:
        """Name the stage if it goes on, though it was told to stop a while ago; each is named
        once."""
        place = job_id, serial
        if place not in self._running or place in self._deaf:
            return None
        self._deaf.add(place)
        return self._running[place][0]

    def is_deaf(self, job_id: str) -> str:
        """The stage that goes on for this job though it was told to stop, if there is one."""
        return next((self._running[place][0] for place in self._deaf if place[0] == job_id), "")

    def those_deaf(self) -> list[str]:
        return [f"{self._running[place][0]} (job {place[0]})" for place in sorted(self._deaf)]

    def those_in_loop(self) -> list[str]:
        """The names of the stages that could block it."""
        running = self._running.values()
        return sorted({name for name, stage in running if stage and stage.runs == "loop"})
