"""The equipment that all stages of one service share: the way out, room on the disk, where
callbacks come in, and what the companions of their workflows have opened."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from jobrunner.core.features.redaction import Redaction
from jobrunner.core.messages import Ended
from jobrunner.files.objects.bucket import ObjectStore
from jobrunner.files.space import Room
from jobrunner.outgoing.gate import Outlets
from jobrunner.ports import Children
from jobrunner.stages.api import Stage
from jobrunner.stages.away import NOWHERE, AwayStage, Elsewhere
from jobrunner.stages.companions import Opened
from jobrunner.stages.given import Given, Host
from jobrunner.stages.run import run_attempt
from jobrunner.stages.secret_settings import secrets_of_settings


class Surroundings:
    """``base_url`` is where others reach this service, ``local_url`` where this machine does. A
    workflow that is held is one whose jobs wait, because what they need is still being opened, or
    because files of theirs are in a store of objects (``bucket``) that does not answer.
    ``answer_keys`` are what the tokens of questions follow from, the newest first."""

    def __init__(self, outlets: Outlets | None = None, room: Room | None = None) -> None:
        self.outlets = outlets or Outlets()
        self.room = room or Room()
        self.bucket: ObjectStore | None = None
        self.redaction = Redaction()
        self.elsewhere: Elsewhere = NOWHERE
        self.base_url = ""
        self.local_url = ""
        self.answer_keys: Callable[[], Sequence[str]] = lambda: ("of no file",)
        self.on_release: Callable[[], None] = lambda: None
        self._held: set[str] = set()
        self._without_files: set[str] = set()
        self._opened: dict[str, Opened] = {}

    def run(
        self, stage: Stage, given: Given, kind: type[Struct] | None, host: Host, children: Children
    ) -> Coroutine[Any, Any, Ended]:
        """Run one attempt where its stage is bound to run: here, or on a cluster."""
        if isinstance(stage, AwayStage):
            return self.elsewhere.run(stage, given, kind, host)
        return run_attempt(stage, given, kind, host, children)

    def hold(self, workflows: Iterable[str]) -> None:
        self._held |= set(workflows)

    def release(self, *workflows: str) -> None:
        self._held -= set(workflows)
        self.on_release()

    def is_held(self, workflow: str) -> bool:
        return workflow in self._held or workflow in self._without_files

    def lacks_files(self, workflow: str) -> bool:
        """Tell if its jobs wait for the store that holds their files."""
        return workflow in self._without_files and workflow not in self._held

    def hold_without_files(self, workflow: str) -> None:
        """A job of it could not have a file, since the store of objects does not answer."""
        self._without_files.add(workflow)

    def files_are_back(self) -> None:
        if self._without_files:
            self._without_files.clear()
            self.on_release()

    def opened(self, workflow: str, opened: Opened) -> None:
        self.redaction.learn(secrets_of_settings(opened.settings, {}))
        self.redaction.learn(one for some in opened.secrets.values() for one in some)
        self._opened[workflow] = opened

    def closed(self, workflow: str) -> None:
        """Forget the addresses that it had opened."""
        self._opened.pop(workflow, None)

    def settings_of(self, workflow: str, declared: Mapping[str, Any]) -> dict[str, Any]:
        """The operator's settings, with what the workflow's companion opened laid over them."""
        opened = self._opened.get(workflow)
        return dict(declared) if opened is None else laid_over(declared, opened.settings)

    def secrets_of(self, source: str) -> tuple[str, ...]:
        """Return the secrets with which companions sign what they send to this source of
        webhooks."""
        return tuple(
            secret for opened in self._opened.values() for secret in opened.secrets.get(source, ())
        )


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, everything else is replaced."""
    merged = dict(below)
    for name, value in above.items():
        known = merged.get(name)
        tables = isinstance(known, Mapping) and isinstance(value, Mapping)
        merged[name] = laid_over(known, value) if tables else value  # type: ignore[arg-type]
    return merged
