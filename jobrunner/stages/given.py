"""The two sides of a running stage: everything that it is told, in a struct that can be sent to
another process or machine, and the host that hears what it says."""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct
from typing_extensions import TypeVar

from jobrunner.core.messages import Report
from jobrunner.files.library import Kept
from jobrunner.stages.requests import Answer, Question

R = TypeVar("R", default=Any)


class Given(Struct, frozen=True):
    """``kept`` and ``answers`` are what the attempt has from before; ``files`` are the files behind
    artifacts, by name; ``seconds`` how long the attempt may take (0: for ever); ``number`` how
    many files the job has; ``floor`` how many bytes of the disk stay free; ``traceparent`` is where
    in a trace this attempt stands. ``away`` are the ids of files behind artifacts that are not on
    this machine, by name: they are fetched when the stage asks for them."""

    job_id: str
    workflow: str
    user_id: str
    job_type: str
    state: str
    run_id: str
    attempt: int
    params: Any = None
    artifacts: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    files: dict[str, Kept] = {}
    seconds: float = 0
    root: str = ""
    folder: str = ""
    number: int = 0
    scratch: str = ""
    base_url: str = ""
    floor: int = 0
    traceparent: str = ""
    away: dict[str, str] = {}


class Host(Protocol):
    """The host of a stage, as its context sees it."""

    async def progress(self, percent: int | None, message: str | None) -> None: ...

    async def keep(self, name: str, value: Any) -> None:
        """Returns when it is on disk."""
        ...

    async def checkpoint(self, made: Report) -> None:
        """Returns when it is on disk."""
        ...

    async def block(self, function: Callable[[], R]) -> R:
        """Runs what would hold up everybody else."""
        ...

    async def ask(self, question: Question) -> Answer:
        """Ask for something beyond the job; failures are raised as the stage's own."""
        ...

    def room(self, size: int) -> None:
        """Raises RetryableFailure when so many bytes more would fill the disk."""
        ...

    def log(self, line: str) -> None: ...

    def monotonic(self) -> float: ...

    def fresh(self) -> str:
        """A new id."""
        ...
