"""What a report may bring: by whom, from where, and in which form.

What is not the reporter's to write, or has no form that the workflow knows, is taken out before
anybody looks, so that a guard which waits for it finds it absent and says so in its own words.
Where no guard waits, the report is refused for it in the end. A value that is stored already is
nothing new, whoever repeats it.
"""

from typing import Any

from msgspec.structs import replace

from jobrunner.core.draft import Draft
from jobrunner.core.listed import Listed, unlike
from jobrunner.core.messages import Checkpoint, Edit, Ended, Move, Report
from jobrunner.errors import Refused

FREE_TO = ("stage", "workflow", "admin")


def fitting(draft: Draft, report: Report) -> Report:
    """The report without what has a wrong form; ``draft.unfit`` says what that was, and why."""
    kept = dict(report.artifacts)
    for name, value in _news(draft, report).items():
        if why := _wrong(draft, name, value):
            draft.unfit[_place(draft, name)] = why
            del kept[name]
    if why := _wrong_result(draft, report.result):
        draft.unfit["result"] = why
        report = replace(report, result=None)
    return report if len(kept) == len(report.artifacts) else replace(report, artifacts=kept)


def misfit(draft: Draft) -> Refused:
    """The refusal of everything that was taken out."""
    errors = [{"path": f"$.{name}", "message": why} for name, why in draft.unfit.items()]
    return Refused("VALIDATION_ERROR", unfit(draft), errors=errors)


def unfit(draft: Draft) -> str:
    """What was taken out and why, in one sentence."""
    return "; ".join(f"{name}: {why}" for name, why in draft.unfit.items())


def _place(draft: Draft, name: str) -> str:
    """Where its sender said it."""
    if isinstance(draft.message, Edit):
        return "value"
    return f"artifact_updates.{name}" if isinstance(draft.message, Move) else name


def _news(draft: Draft, report: Report) -> dict[str, Any]:
    """What the report says that is not known yet; null says nothing."""
    known = draft.job.artifacts
    return {
        name: value
        for name, value in report.artifacts.items()
        if value is not None and not (name in known and known[name].value == value)
    }


def _wrong(draft: Draft, name: str, value: Any) -> str:
    listed = draft.definition.listed.get(name)
    if _reported(draft) and (why := _not_theirs(draft, listed)):
        return why
    return unlike(value, listed.shapes) if listed else ""


def _wrong_result(draft: Draft, result: Any) -> str:
    if result is None:
        return ""
    if _reported(draft) and (why := _not_theirs(draft, None)):
        return why
    return unlike(result, draft.definition.result_shapes(draft.job.job_type))


def _reported(draft: Draft) -> bool:
    """It came as somebody's report, and is not what the workflow itself made of a request."""
    return isinstance(draft.message, Move | Ended | Checkpoint)


def _not_theirs(draft: Draft, listed: Listed | None) -> str:
    writers = listed.writers if listed else FREE_TO
    if not draft.actor.roles(draft.job) & set(writers):
        whose = f"only {', '.join(writers)} may" if writers else "only commands may"
        return f"{whose} write it"
    if listed is not None and listed.states and draft.job.status not in listed.states:
        return f"it is written from {', '.join(listed.states)}, not from {draft.job.status}"
    return ""
