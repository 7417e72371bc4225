"""Commands, and the artifacts that people write.

A command may walk no, one or several edges in one commit. Two kinds of repeat are told apart: the
same command again by its own identity (a client's request id), and a goal that is met already.
"""

from typing import Any

from jobrunner.core import replies
from jobrunner.core.attempts import open_attempt
from jobrunner.core.credits import move_money
from jobrunner.core.decision import NoOp
from jobrunner.core.declaration.ask import Act, Replay
from jobrunner.core.declaration.functions import acted, added, permitted, recognised
from jobrunner.core.declaration.workflow import Command, Trigger
from jobrunner.core.draft import Case, Cause, Draft
from jobrunner.core.failed_stage import named
from jobrunner.core.features.claims import lost
from jobrunner.core.job import Failure, Run, Snapshot
from jobrunner.core.messages import Do, Edit, Report
from jobrunner.core.reports import add_artifacts, fitting
from jobrunner.core.steps import go_on, question, walk
from jobrunner.core.units import AuditRecord
from jobrunner.errors import Refused


def command(case: Case[Do]) -> replies.Verdict:
    """Follow a named request: perhaps already met, else checked, carried out and walked."""
    definition, job, message = case.definition, case.job, case.message
    declared = definition.commands.get(message.command)
    if declared is None:
        return Refused(
            "UNKNOWN_COMMAND", f"{definition.workflow.name} has no command {message.command!r}"
        )
    if not message.actor.roles(job) & set(declared.roles):
        return replies.forbidden(f"command {declared.name!r} is for {', '.join(declared.roles)}")
    draft = replies.begin(case, declared.name)
    if declared.identity is not None:
        if known := recognised(declared.identity, question(draft)):
            return _replayed(draft, known)
    if refused := replies.stale_version(job, message.expected_version):
        return refused
    if job.status in declared.satisfied or _is_demanded(job, declared):
        return replies.satisfied(draft)
    if job.status not in declared.walks:
        return _not_from_here(draft, declared)
    return _carry_out(draft, declared)


def edit(case: Case[Edit]) -> replies.Verdict:
    """Take a person's new version of an artifact."""
    definition, job, message = case.definition, case.job, case.message
    editable = definition.editables.get(message.name)
    if editable is None or not message.actor.roles(job) & {"user", "admin"}:
        return replies.forbidden(f"artifact {message.name!r} is not for you to write")
    if refused := replies.stale_version(job, message.expected_version):
        return refused
    if job.status not in editable.walks:
        return Refused(
            editable.locked,
            f"{message.name} cannot be changed in {job.status}",
            current_status=job.status,
        )
    if refused := _stale_base(job, message):
        return refused
    draft = replies.begin(case, "edit")
    _write(draft, message)
    if editable.action is not None:
        act = added(editable.action, question(draft))
        if isinstance(act, Refused):
            return act
        add_artifacts(draft, fitting(draft, act.report).artifacts)
    draft.decided = True
    cause = Cause("user")
    if refused := walk(draft, editable.walks[job.status], cause) or go_on(draft, cause):
        return refused
    return replies.answered(draft)


def _write(draft: Draft, message: Edit) -> None:
    if message.value is None:
        draft.unfit["value"] = "null is no version of it"
    written = fitting(draft, Report(artifacts={message.name: message.value}))
    add_artifacts(draft, written.artifacts, always=True)


def _carry_out(draft: Draft, declared: Command) -> replies.Verdict:
    for guard in declared.guards:
        if refused := permitted(guard.call, question(draft)):
            return refused
    if _as(draft, declared) == "workflow" and (refused := lost(draft.job, draft.actor, Report())):
        return refused
    act = _act(draft, declared)
    if not isinstance(act, Act):
        return act if isinstance(act, Refused) else _replayed(draft, act)
    cause = _begin(draft, declared, act)
    if refused := _proceed(draft, declared, act, cause):
        return refused
    draft.answer.update(act.answer)
    if declared.audited or draft.actor.role == "admin":
        fields = {"command": declared.name, **draft.case.message.fields}
        draft.audits += (AuditRecord(f"job.{declared.name}", draft.actor.name, fields),)
    status = act.status or declared.status_from.get(replies.source_of(draft), declared.status)
    return replies.answered(draft, status)


def _act(draft: Draft, declared: Command) -> Act | Replay | Refused:
    if declared.action is None:
        return Act()
    return acted(declared.action, question(draft))


def _begin(draft: Draft, declared: Command, act: Act) -> Cause:
    """Take in what the command brings; it says why the job moves."""
    draft.decided = True
    if declared.opens_run and draft.job.run is not None:
        run = draft.job.run
        draft.set(run=Run(run.id, run.opened_by, run.started_at, live=False))
    if act.marks:
        draft.set(marks={**draft.job.marks, **act.marks})
    failure = replies.read_report(draft, act.report)
    message: Do = draft.case.message
    trigger: Trigger = "admin" if draft.actor.role == "admin" else _as(draft, declared)
    return Cause(trigger, message.reason, _failure_in(draft, message.fields) or failure)


def _failure_in(draft: Draft, fields: dict[str, Any]) -> Failure | None:
    if not {"failure_code", "failure_message"} & fields.keys():
        return None
    failure = Failure(
        fields.get("failure_code") or "FAILED",
        fields.get("failure_message") or "",
        fields.get("failed_stage") or "",
        retryable=False,
    )
    return named(draft, failure)


def _proceed(draft: Draft, declared: Command, act: Act, cause: Cause) -> Refused | None:
    path = act.path if act.path is not None else declared.walks[draft.job.status]
    money = declared.money
    if refused := walk(draft, path, cause) or move_money(draft, money, cause.reason):
        return refused
    if act.start or (declared.on_demand and act.path is None and not path):
        _start_on_demand(draft)
    return go_on(draft, cause)


def _as(draft: Draft, declared: Command) -> Trigger:
    roles = draft.actor.roles(draft.job)
    return "user" if "user" in roles and "user" in declared.roles else draft.actor.trigger


def _is_demanded(job: Snapshot, declared: Command) -> bool:
    """Say whether the stage that it would start is at work already, or about to be: one at a
    time."""
    demands = declared.on_demand and declared.walks.get(job.status) == ()
    return demands and job.attempt is not None


def _start_on_demand(draft: Draft) -> None:
    if draft.job.attempt is None:
        if draft.job.run is None or not draft.job.run.live:
            draft.set(run=Run(draft.case.moment.id, draft.opener, draft.now, live=False), tries={})
        open_attempt(draft, draft.job.status)


def _replayed(draft: Draft, known: Any) -> NoOp | Refused:
    if isinstance(known, Refused):
        return known
    answer = {"replayed": known.replayed, **known.answer}
    if draft.job.run is not None:
        answer.setdefault("run_id", draft.job.run_id)
    return NoOp("replayed", draft.job, answer, status=known.status)


def _not_from_here(draft: Draft, declared: Command) -> Refused:
    job, final = draft.job, draft.state.kind == "final"
    return Refused(
        "TERMINAL_STATE" if final else "ILLEGAL_TRANSITION",
        f"{declared.name!r} is not possible in {job.status!r}; it is from "
        f"{', '.join(map(repr, declared.walks))}",
        current_status=job.status,
        attempted_status=_goal(declared),
        allowed_next_statuses=draft.definition.targets(job.status),
    )


def _goal(declared: Command) -> str | None:
    """Name the state that a command leads to from most states, for the words of its refusal."""
    paths = [path for path in declared.walks.values() if path]
    return paths[0][-1] if paths else None


def _stale_base(job: Snapshot, message: Edit) -> Refused | None:
    found = job.artifacts.get(message.name)
    current = found.version if found else 0
    if message.base_version is None or message.base_version == current:
        return None
    return Refused(
        "ARTIFACT_VERSION_CONFLICT",
        f"{message.name} is at version {current}; read it again",
        name=message.name,
        base_version=message.base_version,
        current_version=current,
    )
