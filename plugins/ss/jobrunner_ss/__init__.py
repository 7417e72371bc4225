"""Work that is drafted first, agreed on, and then done exactly as agreed.

The lifecycle is a table in ``workflow``; ``commands`` says what a person's words mean, ``plan``
what is frozen when they agree, and ``recipes`` when two submissions are one.

1. The plan is the contract. It is frozen once, it names the draft it covers, and from then on that
   draft cannot be changed; nothing is put in line without one.
2. Agreeing and queueing are one commit. ``confirmed`` is a state that a job passes through, and
   rests in only when somebody moves it there by hand.
3. Asking twice is not an error: a repeat of the status, and a command whose goal is met, succeed
   and write nothing at all.
4. A submission is recognised by what it asks for, not by when or how often. Whoever wants the same
   thing done again raises ``plan_revision``.

Absent on purpose: a cancel, and any retry that nobody asked for once ``failed`` is reached. Retries
inside ``running`` show in the list of attempts only.
"""

from jobrunner import Definition, Panel
from jobrunner_ss.commands import (
    confirm,
    draft_locked,
    freeze,
    freeze_known,
    skip,
    start,
    store_draft,
    unlocked,
)
from jobrunner_ss.inputs import take_input
from jobrunner_ss.params import Confirm, Draft, Freeze, SsParams
from jobrunner_ss.plan import answered, frozen, kept
from jobrunner_ss.recipes import same_request
from jobrunner_ss.settings import Settings
from jobrunner_ss.workflow import WORKFLOW

__all__ = ["definition", "panel"]

definition = Definition(
    WORKFLOW,
    functions={
        "answered": answered,
        "confirm": confirm,
        "draft_locked": draft_locked,
        "freeze": freeze,
        "freeze_known": freeze_known,
        "frozen": frozen,
        "kept": kept,
        "same_request": same_request,
        "skip": skip,
        "start": start,
        "take_input": take_input,
        "store_draft": store_draft,
        "unlocked": unlocked,
    },
    structs={"ss": SsParams, "draft": Draft, "freeze": Freeze, "confirm": Confirm},
    settings=Settings,
)

panel = Panel("ss", __name__, title="The draft and its plan")
