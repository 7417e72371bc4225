"""Singletons: of the jobs that a user submits under one key, one is open, or one is yet to begin.

``first``    the open job stays, and who comes later is answered with it
``last``     a job that has not begun gives way to the newer one; one that has begun goes on
``replace``  the open job gives way, begun or not

A job gives way by the command ``cancel`` of its workflow, in the commit in which the newer one is
made. With ``quiet_s`` the newer one begins only after so many seconds in which no other came.

A submission says so itself, or its workflow does for each of them (``by_declaration``).
"""

from collections.abc import Callable
from hashlib import sha256

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core.commands import command
from jobrunner.core.decision import Decision, KeyRow, LogEvent, NoOp
from jobrunner.core.declaration.ask import Ask
from jobrunner.core.declaration.functions import call_function
from jobrunner.core.declaration.turn_keys import KEY_MAX
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.draft import Case
from jobrunner.core.facts import Facts, Known
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Do, Moment, Singleton, Submit
from jobrunner.errors import PluginFault, Refused

Verdict = Decision | NoOp | Refused
Born = Callable[[Submit, Facts], Verdict]
Displaced = Callable[[Snapshot, Do, Facts], Verdict]
CANCEL = "cancel"


class SingletonKey(Struct, frozen=True):
    """The digest that a key is stored under, and the job that has it."""

    digest: str
    known: Known | None


def by_declaration(definition: Definition, submit: Submit, now: int) -> Submit:
    """The submission with the wish that its workflow has for it. A child has none: it is told
    apart by the key that its parent gave it, and is not answered with a job of somebody else.

    Raises: PluginFault
    """
    rule = definition.workflow.singleton
    if rule is None or submit.parent is not None or submit.singleton is not None:
        return submit
    ask = Ask(definition, None, submit, submit.actor, submit.params, Facts(), now)
    try:
        key = call_function(definition, rule.key.name, ask, **rule.key.args)
    except Refused:
        key = None
    if not isinstance(key, str) or len(key) > KEY_MAX:
        detail = f"answered no text of at most {KEY_MAX} characters"
        raise PluginFault(definition.workflow.name, rule.key.name, detail)
    return replace(submit, singleton=Singleton(key, rule.mode, rule.quiet_s)) if key else submit


def singleton_digest(submit: Submit) -> str | None:
    """The key of its own name space, in the scope of user and workflow."""
    if submit.singleton is None:
        return None
    text = msgspec.json.encode(["singleton", submit.singleton.key])
    return sha256(text).hexdigest()


def alone(
    submit: Submit,
    facts: Facts,
    moment: Moment,
    held: SingletonKey,
    born: Born,
    displaced: Displaced,
) -> Verdict:
    """Decide about a submission under a singleton's key; ``born`` and ``displaced`` decide about
    the newer job and the one that gives way. A network retry of one that made a job gets that job,
    whatever became of the key since."""
    wanted = submit.singleton
    assert wanted is not None, "asked about a submission without a singleton"
    if wanted.quiet_s:
        start = moment.now + int(wanted.quiet_s * 1000)
        submit = replace(submit, run_at=max(submit.run_at or 0, start))
    open_job = _open(held.known)
    if facts.known is not None or facts.derived is not None:
        return born(submit, facts)
    if open_job is not None and wanted.mode == "first":
        said = {"replayed": True}
        return NoOp("replayed", open_job, said, (LogEvent("job.replayed", said),))
    ended: tuple[Decision, ...] = ()
    if open_job is not None and (wanted.mode == "replace" or not _has_begun(open_job)):
        order = Do(submit.actor, CANCEL, reason="superseded")
        left = displaced(open_job, order, Facts(balance=facts.balance))
        if isinstance(left, Refused):
            return left
        ended = (left,) if isinstance(left, Decision) else ()
    verdict = born(submit, _without(facts, ended))
    if not isinstance(verdict, Decision):
        return verdict
    holder = held.known.job_id if held.known else ""
    row = KeyRow(held.digest, submit.body_digest, wanted.key, holder)
    return replace(verdict, also=(*ended, *verdict.also), keys=(*verdict.keys, row))


def _open(known: Known | None) -> Snapshot | None:
    job = known.snapshot if known is not None else None
    return None if job is None or job.ended else job


def _has_begun(job: Snapshot) -> bool:
    """Say whether somebody works on the job or has done so: its work may be half done."""
    attempt = job.attempt
    if attempt is None:
        return job.serial > 0
    return attempt.status != "due" or attempt.serial > 1


def displace(
    definition: Definition, job: Snapshot, order: Do, facts: Facts, moment: Moment
) -> Verdict:
    """Cancel the job that gives way, by its own declaration, as its owner would."""
    return command(Case(definition, job, order, facts, moment))


def _without(facts: Facts, ended: tuple[Decision, ...]) -> Facts:
    """Add to the balance what they give back, and count them no more."""
    back = sum(
        entry.amount for one in ended for entry in one.ledger if entry.kind in ("release", "refund")
    )
    balance = None if facts.balance is None else facts.balance + back
    gone = sum(one.after.ended for one in ended)
    return replace(facts, balance=balance, open_jobs=facts.open_jobs - gone)
