"""The form of a stage that runs on a cluster: the same code, under a name that says so."""

import msgspec

from jobrunner.core.declaration.states import AWAY
from jobrunner.stages.api import Stage


class AwayStage(Stage, frozen=True):
    """``labels`` are what its worker must have of each: there they are taken, and not here."""

    labels: dict[str, int] = {}

    @property
    def plain_name(self) -> str:
        """Name the stage as it is called where it runs."""
        return self.name.removesuffix(AWAY)


def away_form(stage: Stage) -> AwayStage:
    """Make the form of this stage that runs on a cluster."""
    own = msgspec.structs.asdict(stage)
    own |= {"name": f"{stage.name}{AWAY}", "labels": stage.resources, "resources": {}}
    own |= {"supply": {}, "was": tuple(f"{was}{AWAY}" for was in stage.was)}
    return AwayStage(**own)


def is_away(stage: Stage | None) -> bool:
    return isinstance(stage, AwayStage)
