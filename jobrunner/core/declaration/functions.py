"""Asking the functions that a workflow names. They are a stranger's code: whatever one raises, and
any answer that it may not give, is a ``PluginFault``, and nothing is decided on it.

An answer is read the way a request is, out of its JSON: so a list where a tuple belongs is one, and
what could not be stored or sent is found here and not in a commit.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from jobrunner.core.declaration.ask import Act, Ask, Replay
from jobrunner.core.declaration.guards import BUILT_IN
from jobrunner.core.declaration.spelling import ARTIFACT, NAME
from jobrunner.core.declaration.workflow import Call, Definition
from jobrunner.core.messages import Report
from jobrunner.errors import PluginFault, Refused, bug_named

ENDING = (KeyboardInterrupt, GeneratorExit)


def permitted(call: Call, ask: Ask) -> Refused | None:
    """Ask a guard: None is its yes, everything else a refusal."""
    answer: Refused | None = _consult(call, ask, type(None))
    return answer


def recognised(call: Call, ask: Ask) -> Replay | Refused | None:
    """Ask a command's identity whether this request was met before."""
    answer: Replay | Refused | None = _consult(call, ask, type(None), Replay)
    return answer


def acted(call: Call, ask: Ask) -> Act | Replay | Refused:
    """Ask a command's action what its fields mean."""
    answer: Act | Replay | Refused = _consult(call, ask, Act, Replay)
    return answer


def added(call: Call, ask: Ask) -> Act | Refused:
    """Ask the action of an editable or an upload what it adds."""
    answer: Act | Refused = _consult(call, ask, Act)
    return answer


def sifted(call: Call, ask: Ask) -> Report:
    answer = _consult(call, ask, Report)
    if isinstance(answer, Refused):
        raise _odd(ask.definition, call.name, answer)
    report: Report = answer
    return report


def derived(call: Call, ask: Ask) -> list[Any]:
    """The parts of a derived key."""
    answer = _consult(call, ask, list)
    if isinstance(answer, Refused):
        raise _odd(ask.definition, call.name, answer)
    parts: list[Any] = answer
    return parts


def call_function(definition: Definition, name: str, /, *given: Any, **named: Any) -> Any:
    """Call a function of the plugin; any answer is returned. Raises: Refused, if it does."""
    function = definition.functions.get(name) or BUILT_IN.get(name)
    if function is None:
        raise PluginFault(definition.workflow.name, name, "is not there", missing=True)
    return _called(definition, name, function, given, named)


def sendable(definition: Definition, name: str, answer: Any, kind: Any) -> Any:
    """The answer as JSON says it, when it is of its kind."""
    try:
        return msgspec.json.decode(msgspec.json.encode(answer), type=kind)
    except Exception as error:
        raise _odd(definition, name, answer) from error


def _called(
    definition: Definition,
    name: str,
    function: Callable[..., Any],
    given: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:
    try:
        return function(*given, **named)
    except Refused:
        raise
    except ENDING:
        raise
    except BaseException as raised:
        raise PluginFault(definition.workflow.name, name, f"raised {bug_named(raised)}") from raised


def _consult(call: Call, ask: Ask, *kinds: type) -> Any:
    """Ask a function of the plugin; a refusal that it raises is an answer."""
    try:
        answer = call_function(ask.definition, call.name, ask, **call.args)
    except Refused as refused:
        answer = refused
    if isinstance(answer, Refused):
        return _refusal(call, ask, answer)
    kind = next((kind for kind in kinds if isinstance(answer, kind)), None)
    if kind is None:
        raise _odd(ask.definition, call.name, answer)
    if answer is None:
        return None
    read = sendable(ask.definition, call.name, answer, kind)
    if not _holds(ask, read):
        raise _odd(ask.definition, call.name, answer)
    return read


def _refusal(call: Call, ask: Ask, refused: Refused) -> Refused:
    """Make a refusal with the status that the workflow gives to its code."""
    said: tuple[object, object] = refused.code, refused.detail
    if not all(isinstance(text, str) for text in said) or not NAME.fullmatch(refused.code):
        raise _odd(ask.definition, call.name, refused)
    refused.status = ask.definition.workflow.codes.get(refused.code, refused.status)
    if refused.status not in range(400, 500):
        raise _odd(ask.definition, call.name, refused)
    sendable(ask.definition, call.name, refused.extra, dict[str, Any])
    return refused


def _holds(ask: Ask, answer: Any) -> bool:
    """Say whether an answer of the right type could also be stored and walked."""
    match answer:
        case Act(report=report, path=path, status=status):
            known = set(path or ()) <= ask.definition.states.keys()
            return known and (status == 0 or 200 <= status < 300) and _storable(report)
        case Replay(status=status):
            return 200 <= status < 300
        case Report():
            return _storable(answer)
    return True


def _storable(report: Report) -> bool:
    progress = report.progress is None or 0 <= report.progress <= 100
    return progress and all(ARTIFACT.fullmatch(name) for name in report.artifacts)


def _odd(definition: Definition, name: str, answer: Any) -> PluginFault:
    """Describe a wrong answer; quote it only where it cannot hold anybody's words."""
    plain = answer is None or type(answer) in (bool, int, float)
    shown = repr(answer) if plain else f"with something of type {type(answer).__name__}"
    detail = f"answered {shown}, which it may not"
    return PluginFault(definition.workflow.name, name, detail)
