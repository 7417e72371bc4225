"""Questions that a stage asks of somebody outside: a person, a script, another system.

``ctx.question`` gives one, with an address of its own that only those know who are told it. It can
be mailed before anybody waits; ``answer`` then gives what came, or parks the job until it does.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Generic

import msgspec
from msgspec import UNSET, Struct
from typing_extensions import TypeVar

from jobrunner.core.declaration.params import Stale, decoded
from jobrunner.core.declaration.spelling import ARTIFACT
from jobrunner.core.features.answers.posed import answer_key
from jobrunner.errors import PermanentFailure
from jobrunner.stages.outcomes import Parked
from jobrunner.stages.requests import PosedToken, Posing

A = TypeVar("A", default=Any)

ROLES = ("user", "workflow", "admin")
TEXT_MAX = 2_000
DEFAULT_MAX = 64 * 1024
TIMEOUT_MAX_S = 10**9


class _Posed(Generic[A]):
    def __init__(
        self, name: str, kind: type[A] | None, token: str, base_url: str, answers: dict[str, Any]
    ) -> None:
        self.name = name
        self._kind = kind
        self._token = token
        self._base_url = base_url
        self._answers = answers

    @property
    def url(self) -> str:
        """Return where the answer goes: ``POST`` it there, as JSON. Whoever knows the address may
        answer, once."""
        if not self._base_url or not self._token:
            text = "nobody knows where this service is reached; set [server] public_url"
            raise PermanentFailure("NO_PUBLIC_URL", text)
        return f"{self._base_url.rstrip('/')}/callbacks/{self._token}"

    def _answer(self) -> A:
        key = answer_key(self.name)
        if key not in self._answers:
            raise Parked(key, 0)
        value: Any = self._answers[key]
        if self._kind is None or not issubclass(self._kind, Struct):
            return value  # type: ignore[no-any-return]
        try:
            answer: A = decoded(value, self._kind)
        except Stale as stale:
            raise PermanentFailure("ANSWER_STALE", str(stale)) from stale
        return answer


class StageQuestion(_Posed[A]):
    """A question of a stage that awaits."""

    async def answer(self) -> A:
        """Return the answer, or the default when its time is up. If there is none so far, the job
        is parked, as by ``await_callback``."""
        return self._answer()


class PlainQuestion(_Posed[A]):
    """A question of a plain function."""

    def answer(self) -> A:
        """Return the answer, as ``StageQuestion.answer`` does."""
        return self._answer()


class Questioning:
    """The part of a context that asks; for stages that await."""

    _given: Any
    _host: Any

    async def question(
        self,
        name: str,
        asks: type[A] | None = None,
        *,
        text: str = "",
        by: tuple[str, ...] = ("user",),
        timeout_s: float = 0,
        default: Any = UNSET,
    ) -> StageQuestion[A]:
        """Ask somebody outside, and go on. ``asks`` is the struct of the answer, one of those that
        the stage names in ``@stage(..., asks=[...])``; ``text`` is the question itself. ``by`` are
        the roles that may answer without its ``url``: the job's ``user``, ``workflow``; admins
        always may. After ``timeout_s`` (0: what the state allows) ``answer`` returns ``default``,
        and without one the attempt fails. Called again, it is the same question."""
        asked = await self._host.ask(posing(name, asks, text, by, timeout_s, default))
        given = self._given
        return StageQuestion(name, asks, _token(asked), given.base_url, given.answers)


class PlainQuestioning:
    """The same for plain functions."""

    _given: Any
    _host: Any
    _wait: Callable[[Coroutine[Any, Any, Any]], Any]

    def question(
        self,
        name: str,
        asks: type[A] | None = None,
        *,
        text: str = "",
        by: tuple[str, ...] = ("user",),
        timeout_s: float = 0,
        default: Any = UNSET,
    ) -> PlainQuestion[A]:
        """Ask somebody outside, as ``Context.question`` does."""
        asked = self._wait(self._host.ask(posing(name, asks, text, by, timeout_s, default)))
        given = self._given
        return PlainQuestion(name, asks, _token(asked), given.base_url, given.answers)


def asked_twice(asks: tuple[type[Struct], ...]) -> str:
    """Say which name stands for two structs; answers could be read as either."""
    names = [one.__name__ for one in asks]
    twice = next((name for name in names if names.count(name) > 1), "")
    return f"asks for two structs that are called {twice}; give one another name" if twice else ""


def posing(name: str, asks: Any, text: str, by: Any, timeout_s: Any, default: Any) -> Posing:
    """Put a question into words. Raises: PermanentFailure, for one that makes no sense."""
    roles = (by,) if isinstance(by, str) else tuple(by)
    timed = isinstance(timeout_s, int | float) and 0 <= timeout_s <= TIMEOUT_MAX_S
    if not ARTIFACT.fullmatch(name):
        raise _wrong(f"{name[:80]!r} is no name for a question; {ARTIFACT.pattern} is")
    if strange := [role for role in roles if role not in ROLES]:
        raise _wrong(f"question {name}: by={strange[0]!r}; roles are {', '.join(ROLES)}")
    if not timed:
        raise _wrong(f"question {name}: timeout_s={timeout_s!r}; write seconds, or 0")
    if default is not UNSET and not timeout_s:
        raise _wrong(f"question {name} has a default and no timeout_s; say when it is taken")
    struct = getattr(asks, "__name__", "") if asks is not None else ""
    value = default if default is UNSET else _stored(name, asks, default)
    return Posing(name, struct, text[:TEXT_MAX], roles, float(timeout_s), value)


def _stored(name: str, asks: Any, default: Any) -> Any:
    """Return the default as JSON has it, if it is an answer."""
    try:
        data = msgspec.json.encode(default)
        value = msgspec.json.decode(data)
        if asks is not None:
            msgspec.convert(value, asks)
    except (TypeError, ValueError, RecursionError) as error:
        text = f"question {name}: its default is no answer to it"
        raise PermanentFailure("BAD_REQUEST", text, excerpt=str(error)) from error
    if len(data) > DEFAULT_MAX:
        raise _wrong(f"question {name}: a default of {len(data)} bytes; {DEFAULT_MAX} are kept")
    return value


def _wrong(text: str) -> PermanentFailure:
    return PermanentFailure("BAD_REQUEST", text)


def _token(asked: Any) -> str:
    assert isinstance(asked, PosedToken), f"posed a question, was answered {asked!r}"
    return asked.token
