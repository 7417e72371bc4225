"""The line for slots, as the store shows it."""

from msgspec import Struct


class Waiting(Struct, frozen=True):
    """A job in line for a slot of this process. ``turn_key``: it is taken one at a time."""

    job_id: str
    user_id: str
    workflow: str
    status: str
    job_type: str
    priority: int
    line_at: int
    turn_key: str = ""
    row: int = 0
