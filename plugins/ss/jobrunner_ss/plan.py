"""The plan: what it is made of, when it is frozen, and what it needs first.

A plan's id is the digest of everything it covers, so that freezing the same content twice is the
same plan, and freezing other content is a conflict that anybody can see.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from jobrunner import Ask, Refused, Snapshot
from jobrunner_ss.recipes import normal

Plan = dict[str, Any]


def plan_of(ask: Ask, answers: dict[str, Any] | None = None) -> Plan:
    """The plan that would be frozen now, with these answers beside the known ones."""
    inputs = ask.params.get("inputs") or {}
    covered = {
        "fingerprint": inputs.get("fingerprint") or ask.snapshot.value("fingerprint") or "",
        "requirement": normal(ask.params.get("requirement") or ""),
        "answers": answers_known(ask) | (answers or {}),
        "draft_version": draft_version(ask.snapshot),
    }
    return {"plan_id": _digest(["ss-plan/1", ask.snapshot.id, covered]), **covered}


def frozen(ask: Ask) -> Refused | None:
    """Guard: there is a plan to work by."""
    if ask.snapshot.value("plan") is not None:
        return None
    return Refused("PLAN_MISSING", "no plan is frozen; freeze-plan or confirm make one", status=409)


def answered(ask: Ask) -> Refused | None:
    """Guard: every question that the draft insists on has its answer."""
    return blocked(ask, None)


def kept(ask: Ask) -> Refused | None:
    """Guard: a report does not exchange the draft that was agreed on in passing."""
    plan = ask.snapshot.value("plan")
    if plan is None:
        return None
    if "draft" in ask.report.artifacts and covers(plan) != draft_version(ask.snapshot):
        return Refused("JOB_LOCKED", "the draft is covered by the frozen plan and cannot change")
    return None


def blocked(ask: Ask, answers: dict[str, Any] | None) -> Refused | None:
    """Why this cannot be confirmed yet, or None."""
    if not (missing := unanswered(ask, answers)):
        return None
    detail = f"answers are missing: {', '.join(missing)}; give them with confirm"
    return Refused("DRAFT_CONFIRM_BLOCKED", detail, status=400, missing=missing)


def unanswered(ask: Ask, answers: dict[str, Any] | None) -> list[str]:
    """The required questions without an answer, in the draft's order."""
    known = answers_known(ask) | (answers or {})
    return [name for name in _required(ask.snapshot.value("draft")) if _blank(known.get(name))]


def answers_known(ask: Ask) -> dict[str, Any]:
    """The submission's answers, and on top of them those that a plan was frozen with."""
    plan = ask.snapshot.value("plan")
    agreed = plan.get("answers") if isinstance(plan, dict) else None
    later = ask.snapshot.value("answers")
    return {
        **(ask.params.get("answers") or {}),
        **(later if isinstance(later, dict) else {}),
        **(agreed if isinstance(agreed, dict) else {}),
    }


def draft_version(job: Snapshot) -> int:
    """0 where there is no draft."""
    found = job.artifacts.get("draft")
    return found.version if found else 0


def covers(plan: Any) -> Any:
    """The version of the draft that a plan says it covers, or None."""
    return plan.get("draft_version") if isinstance(plan, dict) else None


def _required(draft: Any) -> list[str]:
    if not isinstance(draft, dict):
        return []
    questions = [
        question.get("id")
        for question in _items(draft.get("questions"))
        if isinstance(question, dict) and question.get("required")
    ]
    return _names([*_items(draft.get("required")), *questions])


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(values: Iterable[Any]) -> list[str]:
    """Each once, in order; what is no name cannot be answered and is not asked for."""
    return list(dict.fromkeys(value for value in values if isinstance(value, str) and value))


def _blank(answer: Any) -> bool:
    return answer is None or (isinstance(answer, str) and not answer.strip())


def _digest(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
