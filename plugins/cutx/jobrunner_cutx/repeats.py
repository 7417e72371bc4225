"""How a command recognises its own repeat."""

from jobrunner import Ask, Replay


def refunded_before(ask: Ask) -> Replay | None:
    """The money is back already, by whatever way: the wish is met and nothing more is paid."""
    return Replay() if ask.snapshot.credits == "refunded" else None
