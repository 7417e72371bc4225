"""Situations: what a declaration says of jobs of one type that stand in one state.

It follows from the declaration alone, so it is worked out once and not for each job.
"""

from typing import Any

from msgspec import Struct

from jobrunner.core.declaration.spelling import NOT
from jobrunner.core.declaration.states import ANY, EXTERNAL, State


class Situation(Struct, frozen=True):
    """``stage`` is bound to the state for this type, ``external`` when none is; ``in_house``: it
    runs here, and here alone. ``remote``: the stage of a plugin is run here, and by workers
    elsewhere. ``goes_on``: the engine itself takes jobs into the state, wherever its stage runs.
    ``onward`` is the state to which the engine takes a job that stands here, or an empty string."""

    state: State
    stage: str
    in_house: bool
    remote: bool
    goes_on: bool
    onward: str


def situation_of(state: State, job_type: str, settings: dict[str, Any]) -> Situation:
    stage = state.stage.get(job_type, state.stage.get(ANY, EXTERNAL))
    in_house = state.kind == "active" and stage != EXTERNAL
    remote = not {ANY, job_type}.isdisjoint(state.remote)
    onward = state.onward.get(job_type, state.onward.get(ANY, ""))
    setting = state.onward_if.removeprefix(NOT)
    if setting and bool(settings.get(setting)) == (setting != state.onward_if):
        onward = ""
    return Situation(state, stage, in_house, remote, in_house or remote, onward)
