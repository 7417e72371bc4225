"""Stages that run on a cluster: what the rest of the service knows of that.

A place that is bound to ``dask``, or whose stage says so itself, runs the stage that it declares,
under a name of its own (``far.sing@dask``). So whoever reads the name knows where it runs:
attempts, slots, pauses, figures, and a start that finds another binding than the one before.
Everything else of such a stage is as here: it is in line for a slot, its attempt is ours, and its
host is that of every other stage; only its code runs on another machine. Who runs it there is
behind ``Elsewhere``.
"""

from jobrunner.stages.away.elsewhere import LACK, NOWHERE, Elsewhere
from jobrunner.stages.away.stage import AwayStage, away_form, is_away

__all__ = ["LACK", "NOWHERE", "AwayStage", "Elsewhere", "away_form", "is_away"]
