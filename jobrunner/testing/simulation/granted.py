"""The things that an author gives to a simulation beside the declaration and the stages: who
answers on the network, files that people send, what the machine has, a library, answers."""

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.actors.host_answers import ASSET_ID
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.core.features.answers.posed import MARK
from jobrunner.core.features.signatures import key_in
from jobrunner.outgoing.calls import Exchange, Reply
from jobrunner.stages.api import Stage
from jobrunner.testing.providers.provider import Provider

Answerer = Callable[[Exchange], Reply] | Provider
Answers = Mapping[str, Any] | Callable[[str], Any]


class Grants(TypedDict, total=False):
    """``http`` answers requests: a function, a provider, or several by origin; ``uploads`` are
    files by the name of the upload that takes them; ``resources`` what there is of what stages ask
    for; ``assets`` the library of the user ada, type and content by id; ``answers`` what a callback
    says, by its key or the question's name; ``settings`` what the operator set for the workflow;
    ``harmless`` patterns of requests ("POST https://x/search*") that may be repeated without a
    key."""

    http: Answerer | Mapping[str, Answerer] | None
    uploads: Mapping[str, bytes]
    resources: Mapping[str, int]
    assets: Mapping[str, tuple[str, bytes]]
    answers: Answers | None
    settings: Mapping[str, Any]
    harmless: tuple[str, ...]


class Endowment(Struct, frozen=True):
    """The same, with what was left out."""

    http: Any = None
    uploads: Mapping[str, bytes] = {}
    resources: Mapping[str, int] = {}
    assets: Mapping[str, tuple[str, bytes]] = {}
    answers: Any = None
    settings: Mapping[str, Any] = {}
    harmless: tuple[str, ...] = ()

    def checked(self, stages: list[Stage], uploads: Mapping[str, Any]) -> None:
        """Say at once what could never work."""
        for stage in stages:
            missing = stage.resources.keys() - stage.supply.keys() - self.resources.keys()
            example = {name: stage.resources[name] for name in sorted(missing)}
            assert not missing, f"stage {stage.name} needs resources: give resources={example}"
        strange = self.uploads.keys() - uploads.keys()
        known = f"the workflow takes {sorted(uploads) or 'none'}"
        assert not strange, f"uploads={sorted(strange)}: {known}"
        for asset_id in self.assets:
            text = (
                f"assets: {asset_id!r} is no id; give one like {'0' * 8}-0000-7000-8000-{'0' * 12}"
            )
            assert ASSET_ID.fullmatch(asset_id), text

    def keys(self) -> list[bytes]:
        """The keys that webhooks of these providers are signed with."""
        several = self.http.values() if isinstance(self.http, Mapping) else (self.http,)
        secrets = (getattr(one, "secret", "") for one in several)
        return [key for key in map(key_in, secrets) if key]

    def laid_over(self, workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        """The operator's settings, over what the workflow says."""
        settings = {**workflow.settings, **self.settings}
        return (replace(workflow, settings=settings) if self.settings else workflow), ()

    def answer(self, name: str) -> Any:
        """Find what is said about the thing that a stage awaits under this name; None: nothing, as
        about a wait for children, which has none. A question is found by its own name, too."""
        if not name:
            return None
        asked = name.removeprefix(MARK)
        if callable(self.answers):
            return self.answers(asked)
        known = self.answers or {}
        return known.get(name, known.get(asked))
