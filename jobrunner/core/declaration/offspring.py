"""The workflows whose jobs a stage may submit, as its own workflow declares them."""

from typing import Literal

from jobrunner.core.declaration.states import Declared

AtEnd = Literal["cancel", "leave", "wait"]


class ChildWorkflow(Declared, frozen=True):
    """Jobs of this workflow may be submitted by the stages of the one that declares it.

    at_end   what becomes of those that go on when their parent ends: ``cancel`` them, ``leave``
             them alone, or ``wait``: people cannot end the parent before them
    covered  the parent's own price covers them: they cost nothing, and no money of theirs moves
    """

    workflow: str
    at_end: AtEnd = "cancel"
    covered: bool = False
