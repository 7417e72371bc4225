"""A world that fits into a test: one lifecycle, its jobs and their rows, and nothing that waits.

``World`` stands in for the actors and the store around the pure core. It reads the facts, asks the
core, and writes down what was decided, checking on the way what no decision may ever break: a
final job stays as it is, versions rise by one, no money of a run moves twice, nobody owes.
"""

from typing import Any

import msgspec

from jobrunner.core.decide import born, decide
from jobrunner.core.decision import AuditRecord, DeadLetter, Decision, Hop, LedgerEntry, LogEvent, NoOp
from jobrunner.core.job import Actor, Asset, Snapshot
from jobrunner.core.messages import (
    Beat,
    Claim,
    Do,
    Ended,
    Event,
    Facts,
    Fired,
    Known,
    Message,
    Moment,
    Move,
    Report,
    SeenEvent,
    Start,
    Submit,
)
from jobrunner.core.workflow import Definition
from jobrunner.errors import Refused

ADA = Actor("ada", "user")
EVE = Actor("eve", "user")
ADMIN = Actor("root", "admin")
WORKER = Actor("worker", "workflow")

NOON = 1_767_225_600_000
BALANCE = {"hold": -1, "charge": -1, "release": 1, "refund": 1, "capture": 0}
HELD = {"hold": 1, "release": -1, "capture": -1, "charge": 0, "refund": 0}

Said = Decision | NoOp | Refused
