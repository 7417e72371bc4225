"""Pause and resume in every kind of state of seven lifecycles, in the house and outside; and what
the pauses of a workflow and of a stage hold back."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.decide import decide
from jobrunner.core.decision import Decision, NoOp, StartStage
from jobrunner.core.declaration.workflow import Command, Definition
from jobrunner.core.facts import Facts
from jobrunner.core.features.pauses import OF_HELD_WORK
from jobrunner.core.job import Actor, Paused, Snapshot
from jobrunner.core.messages import (
    Claim,
    Fired,
    Message,
    Moment,
    Pause,
    Resume,
    Start,
)
from jobrunner.errors import Refused
from tests.core.explore import ask, births_of, explore, plenty
from tests.core.laws import lawful
from tests.core.test_totality import A_FEW, DEFINITIONS, PARAMS
from tests.core.workshop import WORKSHOP
from tests.driving import ADA, ADMIN, EVE, WORKER, varied

HALT = Paused("root", 1, "bad model")


def kinds(definition: Definition) -> list[Snapshot]:
    def visit(job: Snapshot, message: Message, facts: Facts, said: Any) -> None:
        return None

    return [
        job if job.paused is None else told(definition, job, Resume(ADMIN)).after
        for job in explore(definition, births_of(definition, PARAMS), A_FEW, visit)
    ]


def told(definition: Definition, job: Snapshot, message: Message) -> Decision:
    said = ask(definition, job, message)
    assert isinstance(said, Decision), f"{message} in {job.status}: {said!r}"
    return said


@pytest.mark.parametrize("name", DEFINITIONS)
def test_pause_and_resume_in_every_kind_of_state(name: str) -> None:
    """It names who, when and why, moves nothing, is one version each, and a second one is none."""
    definition, seen = DEFINITIONS[name], Counter[str]()
    for job in kinds(definition):
        seen[job.kind] += 1
        said = ask(definition, job, Pause(ADA, "tea"))
        lawful(definition, job, Pause(ADA, "tea"), said)
        if job.kind == "final":
            assert isinstance(said, Refused)
            assert said.code == "TERMINAL_STATE"
            continue
        assert isinstance(said, Decision)
        paused = said.after
        assert paused.paused == Paused("ada", paused.updated_at, "tea")
        assert without(paused) == without(job), "a flag beside the status, and nothing else"
        assert [record.event for record in said.audits] == ["job.pause"]
        again = ask(definition, paused, Pause(ADMIN, "coffee"))
        assert isinstance(again, NoOp)
        resumed = told(definition, paused, Resume(ADMIN))
        lawful(definition, paused, Resume(ADMIN), resumed)
        assert isinstance(ask(definition, resumed.after, Resume(ADA)), NoOp)
        if job.stuck is None and not resumed.hops:
            assert without(resumed.after) == without(job), "it goes on as if nothing had been"
    assert seen.keys() >= {"final"} & {state.kind for state in definition.workflow.states}


def without(job: Snapshot) -> Any:
    left = replace(job, paused=None, version=1, beat=0, updated_at=0)
    return msgspec.json.encode(left)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_nothing_starts_before_it_is_resumed(name: str) -> None:
    """No slot, no claim; of the clocks only those of work that somebody holds."""
    definition = DEFINITIONS[name]
    for job in kinds(definition):
        if job.kind == "final" or job.stuck:
            continue
        paused = told(definition, job, Pause(ADA)).after
        assert isinstance(ask(definition, paused, Start()), NoOp)
        said = ask(definition, paused, Claim(WORKER))
        assert isinstance(said, Refused)
        assert said.code == "JOB_PAUSED"
        for timer in paused.timers:
            rings = isinstance(ask(definition, paused, Fired(timer.purpose, timer.due_at)), NoOp)
            assert rings == (timer.purpose not in OF_HELD_WORK), timer


@pytest.mark.parametrize("name", DEFINITIONS)
def test_what_came_due_meanwhile_acts_on_resume(name: str) -> None:
    definition = DEFINITIONS[name]
    for job in kinds(definition):
        if job.kind == "final" or job.stuck or not job.timers:
            continue
        paused = told(definition, job, Pause(ADA)).after
        resumed = told(definition, paused, Resume(ADA)).after
        for timer in resumed.timers:
            assert timer in paused.timers or timer not in job.timers
            said = ask(definition, resumed, Fired(timer.purpose, timer.due_at))
            assert isinstance(said, Decision), f"{timer} in {resumed.status}: {said!r}"


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_paused_workflow_and_a_paused_stage(name: str) -> None:
    """They hold back what the pause of a job does, and touch no job."""
    definition = DEFINITIONS[name]
    for job in kinds(definition):
        if job.kind == "final" or job.stuck:
            continue
        facts = replace(plenty(), halted=HALT)
        assert isinstance(ask(definition, job, Start(), facts), NoOp)
        claimed = ask(definition, job, Claim(WORKER), facts)
        assert isinstance(claimed, Refused)
        assert "root paused" in claimed.detail
        stages = frozenset(
            one
            for state in definition.workflow.states
            for one in (*state.stage.values(), state.on_demand)
        )
        held = ask(definition, job, Start(), replace(plenty(), halted_stages=stages))
        starts = held.effects if isinstance(held, Decision) else ()
        assert not [one for one in starts if isinstance(one, StartStage)]


@pytest.mark.parametrize("actor", [EVE, WORKER])
def test_who_may_not(actor: Actor) -> None:
    job = births_of(WORKSHOP, PARAMS)[0]
    for message in (Pause(actor), Resume(actor)):
        said = ask(WORKSHOP, job, message)
        assert isinstance(said, Refused)
        assert said.code in ("FORBIDDEN", "NOT_FOUND")


def test_a_stale_version_is_told() -> None:
    job = births_of(WORKSHOP, PARAMS)[0]
    said = ask(WORKSHOP, job, Pause(ADA, expected_version=job.version + 1))
    assert isinstance(said, Refused)
    assert said.code == "JOB_VERSION_CONFLICT"


def test_a_workflow_cannot_have_a_command_of_that_name() -> None:
    """The words are the service's: a workflow that declares one is refused when it is loaded."""
    from jobrunner.http.routes.table import TAKEN

    for name in ("pause", "resume", "rerun"):
        mine = Command(name, {WORKSHOP.workflow.initial: ()})
        faults = check(varied(WORKSHOP, commands=(*WORKSHOP.workflow.commands, mine)), TAKEN)
        assert [fault for fault in faults if name in fault.text], name


def test_the_flag_survives_its_text() -> None:
    job = births_of(WORKSHOP, PARAMS)[0]
    said = decide(WORKSHOP, job, Pause(ADA, "tea"), plenty(), Moment(job.updated_at + 1, "m"))
    assert isinstance(said, Decision)
    assert msgspec.json.decode(msgspec.json.encode(said.after), type=Snapshot) == said.after
