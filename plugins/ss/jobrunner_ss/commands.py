"""The meaning of the commands' fields, and how a command knows that it was met before.

A stale version always speaks first: every function that answers ahead of the engine's own check
lets it pass when the caller's version is not the job's.
"""

from typing import Any

from jobrunner import Act, Ask, Refused, Replay, Report
from jobrunner_ss.plan import Plan, blocked, covers, draft_version, plan_of, unanswered

DRAFTING = ("created", "draft_ready")
AGREEING = ("draft_ready", "confirmed")


def draft_locked(ask: Ask) -> Refused | None:
    """``draft``, recognised: from ``confirmed`` on nobody drafts any more."""
    status = ask.snapshot.status
    if status in DRAFTING or _stale(ask):
        return None
    return _lock(f"the job is {status} and its draft is locked; submit a new plan_revision instead")


def store_draft(ask: Ask) -> Act | Replay | Refused:
    """``draft``, carried out: keep the text that came, or have one written."""
    job, draft = ask.snapshot, ask.fields.get("draft")
    if draft is None:
        return _have_written(ask)
    if job.status == "draft_ready" and draft == job.value("draft"):
        return Replay()
    if refused := _covered(ask):
        return refused
    return Act(report=Report(artifacts={"draft": draft}))


def unlocked(ask: Ask) -> Act | Refused:
    """An edit of the draft, allowed as long as no plan covers it."""
    return _covered(ask) or Act()


def freeze_known(ask: Ask) -> Replay | Refused | None:
    """``freeze-plan``, recognised: the same content was frozen before, wherever the job is now."""
    job = ask.snapshot
    if _stale(ask) or job.status in AGREEING:
        return None
    plan = _plan(ask)
    if plan and plan.get("plan_id") == plan_of(ask, ask.fields.get("answers"))["plan_id"]:
        return Replay(answer=plan)
    detail = f"a plan can be frozen in draft_ready and confirmed, and the job is {job.status}"
    return Refused("PLAN_FREEZE_NOT_ALLOWED", detail, current_status=job.status)


def freeze(ask: Ask) -> Act | Replay | Refused:
    """``freeze-plan``, carried out."""
    answers = ask.fields.get("answers")
    if missing := unanswered(ask, answers):
        detail = f"answers are missing: {', '.join(missing)}; give them under answers"
        return Refused("PLAN_FREEZE_MISSING_REQUIRED", detail, status=400, missing=missing)
    act = _freeze(ask, answers)
    if isinstance(act, Act) and not act.answer:
        return Replay(answer=_plan(ask) or {})
    return act


def skip(ask: Ask) -> Replay | None:
    """``confirm`` with a no: said and heard, nothing changes."""
    if ask.fields["confirmed"] or _stale(ask):
        return None
    return Replay(answer={"skipped": True}, replayed=False)


def confirm(ask: Ask) -> Act | Refused:
    """``confirm`` with a yes: the plan is frozen in the commit that puts the job in line."""
    answers = ask.fields.get("answers")
    return blocked(ask, answers) or _freeze(ask, answers)


def start(ask: Ask) -> Act | Refused:
    """``run``: as ``confirm``, by the answers that are known. A job that failed keeps its plan."""
    if ask.snapshot.status not in AGREEING:
        return Act()
    return blocked(ask, None) or _freeze(ask, None)


def _freeze(ask: Ask, answers: dict[str, Any] | None) -> Act | Refused:
    """Freezes unless that was done; ``answer`` is empty then. Without answers of its own a command
    takes the frozen plan for what it is, whoever stored it."""
    known, plan = ask.snapshot.artifacts.get("plan"), plan_of(ask, answers)
    if known is None or known.value is None:
        return Act(report=Report(artifacts={"plan": plan}), answer=plan)
    frozen = _plan(ask) or {}
    if answers is None or frozen.get("plan_id") == plan["plan_id"]:
        return Act()
    return Refused(
        "PLAN_ALREADY_FROZEN_CONFLICT",
        "a plan with other content is frozen; submit a new plan_revision to plan anew",
        plan_id=frozen.get("plan_id"),
    )


def _have_written(ask: Ask) -> Act | Replay:
    job = ask.snapshot
    busy = job.attempt is not None and job.attempt.status != "ended"
    if busy or job.status == "draft_ready":
        return Replay()
    return Act(path=(), start=True, status=202)


def _covered(ask: Ask) -> Refused | None:
    before = ask.before or ask.snapshot
    if covers(before.value("plan")) != draft_version(before):
        return None
    return _lock("the frozen plan covers this draft, which cannot change any more")


def _plan(ask: Ask) -> Plan | None:
    plan = ask.snapshot.value("plan")
    return plan if isinstance(plan, dict) else None


def _lock(detail: str) -> Refused:
    return Refused("JOB_LOCKED", detail)


def _stale(ask: Ask) -> bool:
    expected = getattr(ask.message, "expected_version", None)
    return expected is not None and expected != ask.snapshot.version
