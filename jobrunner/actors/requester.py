"""The request that a task works for, with its id and address.

Both travel with the task that serves the request. A letter takes them along to the job's actor,
whatever is written meanwhile is marked with the address, and a task that the engine starts for
itself begins without either, whoever's request was the occasion.
"""

from contextvars import ContextVar

from jobrunner.core.decision import Addressed, Unit

# Nobody's, where they are empty.
REQUEST: ContextVar[str] = ContextVar("request", default="")
ADDRESS: ContextVar[str] = ContextVar("address", default="")


def asked(unit: Unit) -> Unit:
    """Mark what is about to be written with the address from which it is asked for."""
    address = ADDRESS.get()
    return Addressed(unit, address) if address else unit


def ask_for_nobody() -> None:
    """Let this task work for the engine itself from here on."""
    REQUEST.set("")
    ADDRESS.set("")
