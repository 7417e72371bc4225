"""The progress bar of ``job watch``, on stderr, where a terminal shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

Draw = Callable[[dict[str, Any], str], None]


@contextmanager
def drawn(job: dict[str, Any]) -> Iterator[Draw]:
    """A bar that stands for this job; call what is given with each newer state of it."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as bars:
        bar = bars.add_task(_text(job, ""), total=100, completed=job["progress"])

        def draw(newer: dict[str, Any], whose: str) -> None:
            bars.update(bar, description=_text(newer, whose), completed=newer["progress"])

        yield draw


def _text(job: dict[str, Any], whose: str) -> str:
    """Say how its progress is put, else whose turn it is."""
    message = job.get("progress_message") or whose
    words = f"{job['status']}: {message}" if message else job["status"]
    return words.replace("[", r"\[")
