"""Tests and measurements of the service from outside its rooms, for us and for plugin authors.

The rules of this room: it may know everybody and nobody knows it. It uses the real rooms, wired
differently, and never copies them. What it measures it measures within one run and prints as
ratios, since a figure alone says more about the machine than about the program.

The idea of its larger half: everything that is not decided by the program (the time, the order of
tasks, the moment of a crash) is decided by a number, the seed. ``loop`` makes time and order,
``world`` the seams, ``process`` a service that dies and starts again, ``callers`` and ``scripted``
what goes on outside and inside of it, ``witness`` and ``laws`` what must be true afterwards. A
fault that was found once can be looked at for ever: it is a seed.

For authors: ``prove`` (and the fixture ``whatever_happens``, the same) for a whole workflow,
``simulate`` for one seed of it, ``run_stage`` for one attempt of one stage
(``run_stage_live`` for one that asks a server of the test), ``in_house`` to have
every state worked by scripted stages.

Deliberately absent: mocks. And what a simulation cannot show: real threads, processes and sockets,
power cuts, and bugs of SQLite.
"""

from jobrunner.bench.show import Show
from jobrunner.outgoing.calls import Exchange
from jobrunner.testing.kit.attempt import StageTrial as Attempt
from jobrunner.testing.kit.attempt import run_stage, run_stage_live
from jobrunner.testing.kit.prove import Proof, prove
from jobrunner.testing.simulation.declared import in_house
from jobrunner.testing.simulation.simulation import Broken, Trace, simulate
from jobrunner.testing.simulation.world import CALM, Faults

__all__ = [
    "CALM",
    "Attempt",
    "Broken",
    "Exchange",
    "Faults",
    "Proof",
    "Show",
    "Trace",
    "in_house",
    "prove",
    "run_stage",
    "run_stage_live",
    "simulate",
]
