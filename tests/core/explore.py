"""Every kind of state that a job of a lifecycle can be in, found by asking everything everywhere.

Two jobs are of a kind when nothing that a decision may turn on tells them apart; times and ids are
left out of that. There are finitely many kinds, so this is a search and not a sample.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import msgspec

from jobrunner.core.decide import born, decide
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts, SeenEvent
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import (
    Fired,
    Message,
    Moment,
    Move,
    Submit,
)
from jobrunner.errors import Refused
from tests.core.wishes import PAGE, wishes
from tests.driving import ADA, NOON

RICH, POOR = 100, 0
Visit = Callable[[Snapshot, Message, Facts, Any], None]


def explore(
    definition: Definition, births: list[Snapshot], most: int, visit: Visit
) -> Iterator[Snapshot]:
    """One job of each kind, ``most`` at the most. Of every status, with every standing of an
    attempt, one is looked at before a second, so that a few are enough to see them all.
    ``visit`` hears every verdict."""
    found = {kind_of(job) for job in births}
    ahead, looked = list(births), Counter[Hashable]()
    while ahead and looked.total() < most:
        job = ahead.pop(min(range(len(ahead)), key=lambda at: looked[_group(ahead[at])]))
        looked[_group(job)] += 1
        for message, facts, said in answers(definition, job):
            visit(job, message, facts, said)
            if isinstance(said, Decision) and kind_of(said.after) not in found:
                found.add(kind_of(said.after))
                ahead.append(said.after)
        yield job


def _group(job: Snapshot) -> Hashable:
    return job.status, job.attempt and job.attempt.status, bool(job.stuck), bool(job.paused)


def answers(
    definition: Definition, job: Snapshot
) -> Iterator[tuple[Message, Facts, Decision | NoOp | Refused]]:
    for message in wishes(definition, job):
        for facts in facts_for(message):
            yield message, facts, ask(definition, job, message, facts)


def ask(
    definition: Definition, job: Snapshot, message: Message, facts: Facts | None = None
) -> Decision | NoOp | Refused:
    """A minute later, or when the timer that fires is due."""
    now = job.updated_at + 1_000
    if isinstance(message, Fired):
        now = max(now, message.due_at)
    moment = Moment(now, f"run-{job.version + 1}")
    return decide(definition, job, message, facts or plenty(), moment)


def plenty(event: SeenEvent | None = None) -> Facts:
    return Facts(balance=RICH, verified=frozenset({PAGE.id}), event=event)


def facts_for(message: Message) -> Iterator[Facts]:
    """What the store may know: enough or no money, files that verify or not, an event seen."""
    yield plenty()
    if isinstance(message, Move) and message.event is not None:
        yield plenty(SeenEvent(message.event.id, message.event.digest))
        yield plenty(SeenEvent(message.event.id, "of other words"))
    yield Facts(balance=POOR)


def births_of(definition: Definition, params: dict[str, dict[str, Any]]) -> list[Snapshot]:
    """A job of each type, now and later."""
    return [
        birth(definition, job_type, params.get(job_type, {}), run_at)
        for job_type in definition.job_types
        for run_at in (None, NOON + 60_000)
    ]


def birth(
    definition: Definition, job_type: str, params: dict[str, Any], run_at: int | None = None
) -> Snapshot:
    struct = definition.structs[definition.job_types[job_type].params]
    decoded = msgspec.to_builtins(msgspec.convert(params, struct))
    name = definition.workflow.name
    submit = Submit(ADA, name, job_type, decoded, "job-1", run_at=run_at)
    said = born(definition, submit, plenty(), Moment(NOON, "run-1"), ())
    assert isinstance(said, Decision), said
    return said.after


def kind_of(job: Snapshot) -> Hashable:
    attempt = job.attempt
    return (
        job.job_type,
        job.status,
        attempt and (attempt.status, attempt.holder, attempt.stage, attempt.not_before > 0),
        attempt and (attempt.awaits, sorted(attempt.answers) == ["call-1"], bool(attempt.kept)),
        job.live,
        job.run and job.run.opened_by,
        bool(job.stuck),
        bool(job.paused),
        job.line_at is not None,
        tuple(sorted(timer.purpose for timer in job.timers)),
        tuple(sorted((lock.scope, lock.holder) for lock in job.locks)),
        tuple(sorted((state, failures) for state, (_, failures) in job.tries.items() if failures)),
        job.credits,
        tuple(sorted((name, bool(made.asset)) for name, made in job.artifacts.items())),
        bool(job.asset_types),
        min(job.deaths, 2),
        job.last_event_at is not None,
        bool(job.marks),
    )
