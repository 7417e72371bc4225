"""Files that an outside worker sends before it reports: they wait with the attempt, and become the
job's with the report that names them. One that was sent for an artifact needs no naming, as long as
the report is of a success. What no report took goes with the attempt.
"""

from msgspec.structs import replace

from jobrunner.core.attempts import amend, renew
from jobrunner.core.decision import NoOp
from jobrunner.core.declaration.artifacts import unlike
from jobrunner.core.declaration.workflow import EXTERNAL, Definition
from jobrunner.core.draft import Case, Draft
from jobrunner.core.features.claims import Marked, lost
from jobrunner.core.job import Actor, Asset, SentFile, Snapshot
from jobrunner.core.messages import Report, Sending
from jobrunner.core.replies import Verdict, answered, begin, forbidden, invalid
from jobrunner.errors import Refused

SENT_MAX = 256


def sendable(
    definition: Definition, job: Snapshot, actor: Actor, said: Marked, artifact: str
) -> Refused | None:
    """Why none of the bytes of such a file need be sent."""
    if not actor.roles(job) & {"workflow", "admin"}:
        return forbidden("files of an attempt come from role workflow; see /jobs/ID/upload")
    attempt = job.attempt
    if attempt is None:
        final = job.kind == "final"
        detail = f"files are sent to work that is done outside; in {job.status!r} there is none"
        code = "TERMINAL_STATE" if final else "JOB_LOCKED"
        return Refused(code, detail, current_status=job.status)
    if refused := lost(job, actor, said):
        return refused
    if attempt.stage != EXTERNAL:
        detail = f"the stage of {attempt.state} runs in this service"
        return Refused("JOB_ALREADY_RUNNING", detail, run_id=attempt.run_id)
    if len(attempt.sent) >= SENT_MAX:
        detail = f"{len(attempt.sent)} files wait for the report of this attempt"
        return Refused("QUOTA_EXCEEDED", detail, limit=SENT_MAX, current=len(attempt.sent))
    return _not_for(definition, job, actor, artifact) if artifact else None


def sending(case: Case[Sending]) -> Verdict:
    """Let a whole file that is at its place wait with the attempt."""
    definition, job, message = case.definition, case.job, case.message
    asset, attempt = message.asset, job.attempt
    known = attempt.sent if attempt else ()
    if any(one.asset.id == asset.id for one in known):
        return NoOp("replayed", job, {"replayed": True})
    if refused := sendable(definition, job, message.actor, message, message.artifact):
        return refused
    draft = begin(case, "send")
    amend(draft, sent=(*known, SentFile(asset, message.artifact)))
    draft.set(heartbeat_at=draft.now)
    renew(draft)
    return answered(draft)


def delivered(draft: Draft, report: Report) -> Report | Refused:
    """The report with the files that it names, and those that need no naming, in their place."""
    attempt = draft.job.attempt
    waiting = {one.asset.id: one for one in attempt.sent} if attempt else {}
    named = [asset for asset in report.assets if not asset.url]
    for asset in named:
        if asset.id not in waiting:
            detail = f"no file {asset.id} was sent for this attempt; send it to /jobs/ID/assets"
            return invalid("assets", detail)
    if not waiting:
        return report
    meant = {} if report.reports_failure else {one.artifact: one for one in waiting.values()}
    meant.pop("", None)
    used = {asset.id for asset in named} | {one.asset.id for one in meant.values()}
    amend(draft, sent=tuple(one for one in waiting.values() if one.asset.id not in used))
    given = [asset if asset.url else _known(asset, waiting) for asset in report.assets]
    given += [one.asset for one in meant.values() if one.asset not in given]
    addresses = {one.artifact: one.asset.url for one in _named_first(waiting, used)}
    return replace(report, assets=_each_once(given), artifacts={**addresses, **report.artifacts})


def _not_for(definition: Definition, job: Snapshot, actor: Actor, artifact: str) -> Refused | None:
    listed = definition.listed.get(artifact)
    if listed is None:
        return None
    if not actor.roles(job) & set(listed.writers):
        return forbidden(f"artifact {artifact!r} is not for you to write")
    why = unlike("/assets/ID/content", listed.shapes)
    return invalid("artifact", f"{artifact!r} is no file: {why}") if why else None


def _known(named: Asset, waiting: dict[str, SentFile]) -> Asset:
    sent = waiting[named.id].asset
    return replace(sent, asset_type=named.asset_type or sent.asset_type)


def _named_first(waiting: dict[str, SentFile], used: set[str]) -> list[SentFile]:
    return [one for one in waiting.values() if one.artifact and one.asset.id in used]


def _each_once(assets: list[Asset]) -> tuple[Asset, ...]:
    return tuple({asset.id: asset for asset in reversed(assets)}.values())[::-1]
