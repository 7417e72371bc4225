"""A finding, and the patient that it is about."""

from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

from jobrunner.config.settings import Config

if TYPE_CHECKING:
    from jobrunner.store.keeping.examination import Examined

Level = Literal["ok", "warn", "bad"]


class Finding(Struct, frozen=True):
    """``cure`` is empty where all is well."""

    topic: str
    level: Level
    says: str
    cure: str = ""


class Patient(NamedTuple):
    """``config`` has defaults where the settings have ``faults``. ``holder`` is the process that
    has the file, ``file`` what was found in it, None where there is none. ``answer`` is what the
    service says, empty for one that is ready, None where nobody answers; ``warnings`` are its."""

    config: Config
    faults: tuple[str, ...]
    now: int
    holder: str
    file: "Examined | None"
    url: str
    answer: str | None
    version: str
    warnings: dict[str, str]

    @property
    def runs(self) -> bool:
        return self.answer is not None


def fine(topic: str, says: str) -> Finding:
    return Finding(topic, "ok", says)


def warning(topic: str, says: str, cure: str) -> Finding:
    return Finding(topic, "warn", says, cure)


def fault(topic: str, says: str, cure: str) -> Finding:
    return Finding(topic, "bad", says, cure)
