"""How a workflow declares that only one of its jobs with a key is open."""

from typing import Literal

from jobrunner.core.declaration.states import Call, Declared

SingletonMode = Literal["first", "last", "replace"]


class SingletonBy(Declared, frozen=True):
    """Of the jobs of a user with the same key, one is open, or one is yet to begin.

    key      a function that makes a key of the submission; an empty one stands for nothing
    mode     the ``first`` stays, or the ``last`` takes the place of one that has not begun, or it
             does ``replace`` any
    quiet_s  a job begins after so many seconds; with ``last``, in which no other came
    """

    key: Call
    mode: SingletonMode = "first"
    quiet_s: float = 0
