"""Redaction: secrets are taken out of texts once, where somebody's word enters the core.

Two things are known of a secret: its value, where the operator has configured it, and how keys look
in general. Values are taken out of everything that is said; what only looks like a key is taken out
of the texts that explain (why it failed, how it goes, log lines), since results and artifacts are
somebody's work and may speak of keys.
"""

import re
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from jobrunner.core import messages
from jobrunner.core.features.answers.giving import Give, Pose
from jobrunner.core.job import Failure

GONE = "[redacted]"
SHORTEST = 4
WORDLESS = frozenset({bool, int, float, type(None)})
UNSAFE = re.compile(rb"[^A-Za-z0-9_.~-]")
# These look at words of strangers, in the one loop that serves everybody. So each takes a time in
# proportion to the text: none walks far through a run in which each letter may be a beginning.
LOOKS = (
    (re.compile(r"(?<=[a-z0-9+.-]://)[^/\s@\"'<>]++@", re.IGNORECASE), f"{GONE}@"),
    (re.compile(r"\b(bearer\s++)[A-Za-z0-9._~+/=-]{8,}+", re.IGNORECASE), rf"\1{GONE}"),
    (re.compile(r"\b(basic\s++)(?=\S*[0-9=])[A-Za-z0-9+/=]{8,}+", re.IGNORECASE), rf"\1{GONE}"),
    (re.compile(r"\b(?:[spr]k|r8|hf|gsk|gh[pousr]|xox[abprs]|jr)[-_][\w-]{8,}+"), GONE),
    (re.compile(r"\bwhsec_[A-Za-z0-9+/=]{8,}+"), GONE),
    (re.compile(r"\b(?:AKIA|AIza)[\w-]{12,}+"), GONE),
    (
        re.compile(r"(?<![\w-])(?>([\w-]*?)\beyJ)[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+"),
        rf"\1{GONE}",
    ),
    (
        re.compile(
            r"((?:api[-_ ]?key|access[-_ ]?key|secret|token|passw(?:or)?d|credential|signature)"
            r"[\w-]{0,20}[\"']?\s*+[=:]\s*+[\"']?)(?=[^\s\"',;&]{0,256}[0-9])[^\s\"',;&]{8,}+",
            re.IGNORECASE,
        ),
        rf"\1{GONE}",
    ),
)


class Redaction:
    """Call it with a text. It knows the values that it was told."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._known: re.Pattern[str] | None = None
        self.learn(values)

    def learn(self, values: Iterable[str]) -> None:
        """Secrets, as they are and as they stand in an address. What is very short is no secret,
        and would be found in every word."""
        known = {value.strip() for value in values} - self._values
        fresh = {value for value in known if len(value) >= SHORTEST}
        if not fresh:
            return
        self._values |= fresh
        forms = {form for value in self._values for form in (value, _in_an_address(value))}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._known = re.compile("|".join(map(re.escape, longest_first)))

    def __call__(self, text: str) -> str:
        """Remove known secrets, and whatever looks like one."""
        text = self.known_in(text)
        for pattern, instead in LOOKS:
            text = pattern.sub(instead, text)
        return text

    def known_in(self, text: str) -> str:
        """Remove known secrets only."""
        return self._known.sub(GONE, text) if self._known else text

    def within(self, value: Any) -> Any:
        """The same for every text in a value."""
        if not value or type(value) in WORDLESS:
            return value
        if isinstance(value, str):
            return self.known_in(value)
        if isinstance(value, dict):
            return {self.within(name): self.within(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.within(inner) for inner in value]
        return value


def redacted(message: messages.Message, clean: Redaction) -> messages.Message:
    """The message, as everybody may read what it says."""
    match message:
        case messages.Start():
            return message  # says nothing
        case messages.Ended():
            return replace(
                message,
                report=_report(message.report, clean),
                failure=_failure(message.failure, clean),
                log=tuple(map(clean, message.log)),
            )
        case messages.Remote():
            return replace(message, said=redacted(message.said, clean))
        case messages.Move():
            reason = message.reason and clean(message.reason)
            return replace(message, report=_report(message.report, clean), reason=reason)
        case messages.Checkpoint():
            return replace(message, report=_report(message.report, clean))
        case messages.Keep() | messages.Answered() | messages.Told() | Give():
            return replace(message, value=clean.within(message.value))
        case Pose(posed=posed):
            default = clean.within(posed.default)
            return replace(message, posed=replace(posed, text=clean(posed.text), default=default))
    return _told(message, clean)


def _told(message: messages.Message, clean: Redaction) -> messages.Message:
    """The messages of people and of outside workers, which say one thing in words."""
    match message:
        case messages.Beat(message=str() as text):
            return replace(message, message=clean(text))
        case messages.Do(fields={"failure_message": str() as text}):
            return replace(message, fields={**message.fields, "failure_message": clean(text)})
    return message


def _in_an_address(value: str) -> str:
    return UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], value.encode()).decode()


def _report(report: messages.Report, clean: Redaction) -> messages.Report:
    return replace(
        report,
        artifacts=clean.within(report.artifacts),
        result=clean.within(report.result),
        message=report.message and clean(report.message),
        failure_message=report.failure_message and clean(report.failure_message),
    )


def _failure(failure: Failure | None, clean: Redaction) -> Failure | None:
    if failure is None:
        return None
    return replace(failure, message=clean(failure.message), detail=clean(failure.detail))
