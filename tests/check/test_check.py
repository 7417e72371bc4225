"""The check of a declaration: a valid one passes, and each planted fault is found and told."""

import pytest
from msgspec.structs import fields, replace

from jobrunner.check.checking import check
from jobrunner.core.declaration.workflow import (
    Birth,
    Call,
    Command,
    Deadline,
    Definition,
    Edge,
    Editable,
    Guard,
    JobType,
    Lock,
    Money,
    Recipe,
    Retry,
    Route,
    State,
    Workflow,
)
from tests.core.declared import (
    COMMANDS,
    EDGES,
    FUNCTIONS,
    SAMPLE,
    STATES,
    Params,
    also,
    command,
    define,
    edge,
    faults,
    guard,
    retry,
    state,
    without_edge,
)

SIDE = State("side", "waiting", person=False)
TWICE: dict[tuple[str, str], Money] = {
    ("draft", "queued"): "charge",
    ("running", "resting"): "refund",
    ("resting", "queued"): "charge",
}
INTO_SIDE = Edge("draft", "side", by=("user",))

PLANTED: dict[str, tuple[Workflow, str, tuple[str, ...]]] = {
    # names
    "a state declared twice": (also(states=(STATES[0],)), "duplicate", ("draft",)),
    "a command declared twice": (also(commands=(COMMANDS[1],)), "duplicate", ("cancel",)),
    "a job type declared twice": (
        also(job_types=(JobType("near", params="params"),)),
        "duplicate",
        ("near",),
    ),
    "an edge declared twice": (also(edges=(EDGES[0],)), "duplicate", ("draft -> queued",)),
    "one scope in two locks": (also(locks=(Lock("job", guarded=()),)), "duplicate", ("job",)),
    "an edge to a state that is not": (
        also(edges=(Edge("draft", "gone", by=("user",)),)),
        "unknown-state",
        ("gone",),
    ),
    "onward to a state that is not": (
        state("queued", onward={"*": "runing"}),
        "unknown-state",
        ("runing",),
    ),
    "retries that end in a state that is not": (
        retry("checking", failed=("gone",)),
        "unknown-state",
        ("gone",),
    ),
    "retries that come back to a state that is not": (
        retry("running", again="gone"),
        "unknown-state",
        ("gone",),
    ),
    "a deadline to a state that is not": (
        state("queued", deadline=Deadline(1, ("gone",))),
        "unknown-state",
        ("gone",),
    ),
    "an outcome to a state that is not": (
        state("running", done="gone"),
        "unknown-state",
        ("gone",),
    ),
    "a command from a state that is not": (
        command("note", walks={"gone": ()}),
        "unknown-state",
        ("gone",),
    ),
    "a goal met in a state that is not": (
        command("start", satisfied=("gone",)),
        "unknown-state",
        ("gone",),
    ),
    "a lock on a state that is not": (
        replace(SAMPLE, locks=(Lock("job", guarded=("gone",)),)),
        "unknown-state",
        ("gone",),
    ),
    "a guard around a state that is not": (
        edge("queued", "running", guards=guard("allowed", otherwise=("gone",))),
        "unknown-state",
        ("gone",),
    ),
    "a key that is free in a state that is not": (
        replace(SAMPLE, recipe=Recipe(freed=("gone",))),
        "unknown-state",
        ("gone",),
    ),
    "an unknown initial state": (replace(SAMPLE, initial="gone"), "unknown-state", ("gone",)),
    "an initial state that is final": (replace(SAMPLE, initial="done"), "initial", ("done",)),
    "an edge out of a final state": (
        also(edges=(Edge("done", "queued", by=("admin",)),)),
        "final-exit",
        ("done", "queued"),
    ),
    "no job type": (replace(SAMPLE, job_types=()), "job-type", ("sample",)),
    "a negative price": (
        replace(SAMPLE, job_types=(JobType("near", "params", price=-1),)),
        "job-type",
        ("near",),
    ),
    "a stage for a job type that is not": (
        state("checking", stage={"*": "sample.check", "fra": "external"}),
        "job-type",
        ("checking", "fra"),
    ),
    "a struct that is not": (
        also(job_types=(JobType("third", params="gone"),)),
        "unknown-struct",
        ("third",),
    ),
    "a guard that is not": (
        edge("draft", "queued", guards=guard("alowed")),
        "unknown-function",
        ("draft", "queued"),
    ),
    "an action that is not": (
        command("note", action=Call("gone")),
        "unknown-function",
        ("note", "gone"),
    ),
    "a guard called with a wrong argument": (
        edge("draft", "queued", guards=(Guard(Call("allowed", {"limits": 1})),)),
        "arguments",
        ("draft", "limits"),
    ),
    "a code without a status": (
        edge("draft", "queued", guards=guard("allowed", code="NO_SUCH")),
        "code",
        ("NO_SUCH",),
    ),
    "a code that is a success": (replace(SAMPLE, codes={"BLOCKED": 200}), "code", ("BLOCKED",)),
    "a failed stage that is not": (
        replace(SAMPLE, failed_stages=("gone",)),
        "unknown-stage",
        ("gone",),
    ),
    "a route to a job type that is not": (
        also(routes=(Route("POST", "/sample/new", job_type="gone"),)),
        "route",
        ("/sample/new",),
    ),
    "two routes on one path": (
        also(routes=(Route("POST", "/again/{job}", job_type="near"),)),
        "route",
        ("/again/{job}",),
    ),
    # ways
    "a command along an undeclared pair": (
        without_edge("draft", "canceled"),
        "undeclared-edge",
        ("draft", "canceled", "cancel"),
    ),
    "a deadline along an undeclared pair": (
        without_edge("queued", "failed"),
        "undeclared-edge",
        ("queued", "failed"),
    ),
    "a key freed along an undeclared pair": (
        replace(SAMPLE, recipe=Recipe(freed=("queued",), supersede=("done",))),
        "undeclared-edge",
        ("queued", "done"),
    ),
    "a command whose role may not take the edge": (
        edge("failed", "queued", by=("admin",)),
        "trigger",
        ("failed", "queued", "retry"),
    ),
    "a deadline whose edge no timer takes": (
        edge("queued", "failed", by=("user",)),
        "trigger",
        ("queued", "failed"),
    ),
    "a backoff whose edge no timer takes": (
        edge("resting", "queued", by=("user",)),
        "trigger",
        ("resting", "queued"),
    ),
    "a failure whose edge no stage takes": (
        edge("checking", "failed", by=("timer",)),
        "trigger",
        ("checking", "failed"),
    ),
    "onward along an edge that the engine may not take": (
        edge("queued", "running", by=("workflow",)),
        "trigger",
        ("queued", "running"),
    ),
    "an edge for nobody": (edge("draft", "queued", by=()), "trigger", ("draft -> queued",)),
    "a way out that a guard may bar": (
        edge("checking", "failed", guards=guard("allowed")),
        "barred",
        ("checking", "failed"),
    ),
    # shapes, repeats, commands
    "a repeat that retries without a self edge": (
        without_edge("checking", "checking"),
        "repeat",
        ("checking",),
    ),
    "a self edge without a repeat that retries": (
        state("checking", same="refused"),
        "repeat",
        ("checking",),
    ),
    "progress in a state where nobody works": (
        state("draft", same="progress"),
        "repeat",
        ("draft",),
    ),
    "a final state with a deadline": (
        state("done", deadline=Deadline(1, ("failed",))),
        "shape",
        ("done",),
    ),
    "retries where nobody works": (
        state("draft", retry=Retry("inside", failed=("canceled",))),
        "shape",
        ("draft",),
    ),
    "a round trip without an end": (retry("running", failed=("resting",)), "shape", ("running",)),
    "a round trip that rests where a person is waited for": (
        state("resting", person=True),
        "failure",
        ("running", "resting"),
    ),
    "a failure that reads as a success": (
        retry("checking", failed=("done",)),
        "failure",
        ("checking", "done"),
    ),
    "a command that is met where it walks": (
        command("start", satisfied=("draft",)),
        "command",
        ("draft", "start"),
    ),
    "a command that is allowed nowhere": (command("note", walks={}), "command", ("note",)),
    "a command out of a final state": (
        command("retry", walks={"done": ("queued",)}),
        "command",
        ("done", "queued"),
    ),
    "an edit out of a final state": (
        replace(SAMPLE, editables=(Editable("text", {"done": ("queued",)}),)),
        "command",
        ("done", "queued"),
    ),
    "a stage on a state that waits": (
        state("draft", stage={"*": "sample.run"}),
        "shape",
        ("draft",),
    ),
    "onward from a state where work is done": (
        state("checking", onward={"*": "done"}),
        "shape",
        ("checking",),
    ),
    "a stage on demand in a queue": (state("queued", on_demand="sample.run"), "shape", ("queued",)),
    "a stage on demand that nobody can demand": (
        replace(
            state("draft", on_demand="sample.run"),
            commands=(*COMMANDS[1:], Command("begin", walks={"queued": ()}, on_demand=True)),
        ),
        "shape",
        ("draft",),
    ),
    "a command that demands what is not offered": (
        command("note", on_demand=True),
        "command",
        ("note",),
    ),
    "a deadline that fails no attempt": (state("draft", deadline=Deadline(9)), "shape", ("draft",)),
    "a negative limit": (state("running", limit_s=-1), "value", ("running",)),
    "too much progress": (state("done", entry=101), "value", ("done",)),
    "no attempt at all": (retry("running", max=0), "value", ("running",)),
    "more jitter than delay": (retry("running", jitter=2), "value", ("running",)),
    "a way back from a retry that is no round trip": (
        retry("checking", again="queued"),
        "shape",
        ("checking",),
    ),
    "a key that two jobs would have": (
        replace(SAMPLE, recipe=Recipe(derive=Call("derive"), freed=("resting", "done"))),
        "shape",
        ("resting",),
    ),
    "a guard at birth that would walk": (
        replace(SAMPLE, birth=Birth(guard("allowed", otherwise=("canceled",)))),
        "shape",
        ("allowed",),
    ),
    "a command for no role": (command("note", roles=()), "command", ("note",)),
    "a command that succeeds with a refusal": (command("note", status=409), "command", ("note",)),
    "an answer from where a command is not allowed": (
        command("start", status_from={"done": 200}),
        "command",
        ("start", "done"),
    ),
    "an artifact that can be written nowhere": (
        replace(SAMPLE, editables=(Editable("text", {}),)),
        "command",
        ("text",),
    ),
    "an edge to everywhere": (
        also(edges=(Edge("draft", "*", by=("user",)),)),
        "unknown-state",
        ("draft",),
    ),
    "a core code with another status": (
        replace(SAMPLE, codes={"BLOCKED": 422, "FORBIDDEN": 404}),
        "code",
        ("FORBIDDEN",),
    ),
    "a route that is two things": (
        also(routes=(Route("PUT", "/x/{id}", job_type="near", command="start"),)),
        "route",
        ("/x/{id}",),
    ),
    "a route to the command of no job": (
        also(routes=(Route("PUT", "/x", command="start"),)),
        "route",
        ("/x",),
    ),
    "a route to a command that is not": (
        also(routes=(Route("PUT", "/x/{id}", command="gone"),)),
        "route",
        ("gone",),
    ),
    "a route without a root": (also(routes=(Route("PUT", "x"),)), "route", ("PUT x",)),
    "an answer that is not": (
        also(routes=(Route("PUT", "/x", answer="gone"),)),
        "unknown-function",
        ("gone",),
    ),
    # life
    "a state that nothing leads to": (also(states=(SIDE,)), "reachable", ("side",)),
    "a state without an end": (
        also(states=(replace(SIDE, person=True),), edges=(INTO_SIDE,)),
        "trap",
        ("draft", "side"),
    ),
    "a wait for nobody": (
        also(states=(SIDE,), edges=(INTO_SIDE, Edge("side", "canceled", by=("workflow",)))),
        "way-out",
        ("side",),
    ),
    "a queue that nothing takes a job from": (
        state("queued", onward={}, deadline=None),
        "way-out",
        ("queued",),
    ),
    "outside work without a deadline": (
        state("running", deadline=None),
        "way-out",
        ("running", "far"),
    ),
    "a stage without a time limit": (state("checking", limit_s=0), "way-out", ("checking",)),
    "a stage without a way to fail": (retry("checking", failed=()), "way-out", ("checking",)),
    "a stage without a success": (state("checking", done=""), "way-out", ("checking",)),
    "a circle of deadlines": (
        replace(
            also(edges=(Edge("failed", "draft", by=("timer",)),)),
            states=tuple(
                replace(s, kind="waiting", deadline=Deadline(9, ("queued",)))
                if s.name == "failed"
                else s
                for s in STATES
            ),
        ),
        "endless",
        ("queued", "failed"),
    ),
    "a stage that leads back to its own queue": (
        replace(
            state("checking", done="queued"),
            edges=(*EDGES, Edge("checking", "queued", by=("stage",))),
        ),
        "endless",
        ("queued", "running", "checking"),
    ),
    "a deadline that fails an attempt without retries": (
        state("running", retry=None, rejected="", stage={"*": "external"}),
        "way-out",
        ("running",),
    ),
    "a deadline that leads back": (
        state("running", deadline=Deadline(9, ("checking", "running"))),
        "way-out",
        ("running",),
    ),
    "a line of jobs that no worker may claim": (
        replace(
            edge("queued", "running", by=("engine",)),
            states=tuple(replace(s, deadline=None) if s.name == "queued" else s for s in STATES),
        ),
        "way-out",
        ("queued", "far"),
    ),
    # money
    "an end without settlement": (
        edge("checking", "done", money=None),
        "money",
        ("checking", "done"),
    ),
    "a cancel that forgets the hold": (
        edge("resting", "canceled", money=None),
        "money",
        ("resting", "canceled"),
    ),
    "a capture without a hold": (edge("draft", "queued", money=None), "money", ("draft", "queued")),
    "two holds": (edge("queued", "running", money="hold"), "money", ("queued", "running")),
    "a settlement and an end": (
        edge("running", "checking", money="capture"),
        "money",
        ("running", "checking"),
    ),
    "a revival without a hold": (
        edge("failed", "queued", money=None),
        "money",
        ("failed", "queued"),
    ),
    "a hold at birth and another": (
        replace(SAMPLE, birth=Birth(money="hold")),
        "money",
        ("draft", "queued"),
    ),
    "a refund without a charge": (
        edge("draft", "canceled", money="refund"),
        "money",
        ("draft", "canceled"),
    ),
    "a refund that can be asked for twice": (
        command("note", walks={"done": ()}, money="refund"),
        "money",
        ("done", "note"),
    ),
    "a new run over an open hold": (
        command("start", walks={"draft": ("queued",), "resting": ("queued",)}, satisfied=()),
        "money",
        ("resting", "queued"),
    ),
    "a lapse over an open hold": (
        replace(SAMPLE, locks=(replace(SAMPLE.locks[0], lapse_s=9),)),
        "money",
        ("resting",),
    ),
    "a second charge in one run": (
        replace(
            SAMPLE,
            edges=tuple(replace(e, money=TWICE.get((e.source, e.target))) for e in EDGES),
        ),
        "money",
        ("resting", "queued"),
    ),
    # one at a time
    "turns where nobody works": (
        state("queued", one_at_a_time=Call("by_user")),
        "one-at-a-time",
        ("queued",),
    ),
    "none at a time": (
        state("running", one_at_a_time=Call("by_user"), at_a_time=0),
        "one-at-a-time",
        ("running", "0 at a time"),
    ),
    "so many at a time by nothing": (state("running", at_a_time=3), "one-at-a-time", ("running",)),
    "a key that nobody makes": (
        state("running", one_at_a_time=Call("by_moon")),
        "unknown-function",
        ("by_moon",),
    ),
    # locks
    "work without a lock": (
        replace(SAMPLE, locks=(Lock("job", guarded=("running",)),)),
        "lock",
        ("checking",),
    ),
    "a lock on an end": (
        replace(SAMPLE, locks=(Lock("job", guarded=("running", "checking", "failed")),)),
        "lock",
        ("failed",),
    ),
    "a lock held at an end": (
        replace(SAMPLE, locks=(Lock("job", ("running", "checking"), held=("done",)),)),
        "lock",
        ("done",),
    ),
    "a lock on a wait for a person": (
        replace(SAMPLE, locks=(Lock("job", guarded=("running", "checking", "draft")),)),
        "lock",
        ("draft",),
    ),
    "a lock held where nothing moves": (
        replace(SAMPLE, locks=(Lock("job", ("running", "checking"), held=("draft",)),)),
        "lock",
        ("draft",),
    ),
    "a state in two scopes": (
        also(locks=(Lock("second", guarded=("running",)),)),
        "lock",
        ("running",),
    ),
}


# ---------------------------------------------------------------- tests


def test_a_valid_declaration_has_no_faults() -> None:
    assert faults(SAMPLE) == ()


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_found_and_told(planted: str) -> None:
    workflow, rule, offenders = PLANTED[planted]
    found = [fault for fault in faults(workflow) if fault.rule == rule]
    told = ["\n".join((fault.text, *fault.trace)) for fault in found]
    assert any(all(name in text for name in offenders) for text in told), (planted, told)
    assert all(fault.trace[-1].startswith("here:") for fault in faults(workflow))


@pytest.mark.parametrize("planted", PLANTED)
def test_the_trace_itself_names_what_is_at_fault(planted: str) -> None:
    workflow, rule, offenders = PLANTED[planted]
    traces = ["\n".join(fault.trace) for fault in faults(workflow) if fault.rule == rule]
    states = {state.name for state in STATES} & set(offenders)
    assert any(all(name in trace for name in states) for trace in traces), (planted, traces)


def test_names_are_told_before_their_echoes() -> None:
    """A slip in one name does not bury the reader in what follows from it."""
    found = faults(state("queued", onward={"*": "runing"}))
    assert [fault.rule for fault in found] == ["unknown-state"]
    assert "did you mean 'running'?" in found[0].text


def test_a_money_fault_tells_the_whole_story() -> None:
    (fault,) = faults(edge("checking", "failed", money=None))
    assert fault.trace == (
        "born in draft",
        "draft -> queued by user: command start (hold)",
        "queued -> running by engine: onward",
        "running -> checking by stage: outcome done",
        "checking -> failed by stage or timer: attempts exhausted (3)",
        "here: the hold of this run is not settled and nothing can happen any more",
    )


def test_a_hung_stage_tells_the_whole_story() -> None:
    (fault,) = faults(state("checking", limit_s=0))
    assert fault.trace[-2:] == (
        "running -> checking by stage: outcome done",
        "here: the stage of checking hangs, and nothing can happen any more",
    )


def test_a_command_that_knows_its_repeat_may_refund() -> None:
    charged = tuple(
        replace(e, money="charge" if e.source == "draft" and e.money else None)
        for e in EDGES
        if (e.source, e.target) != ("failed", "queued")
    )
    refund = Command("refund", walks={"done": ()}, money="refund", identity=Call("known"))
    commands = tuple(c for c in COMMANDS if c.name != "retry")
    paid = replace(SAMPLE, edges=charged, commands=(*commands, refund))
    assert faults(paid) == ()
    forgetful = replace(paid, commands=(*commands, replace(refund, identity=None)))
    assert {fault.rule for fault in faults(forgetful)} == {"money"}


@pytest.mark.parametrize("path", ["/jobs/{id}/transitions", "/jobs/{any}/{name}"])
def test_a_route_must_not_shadow_the_service(path: str) -> None:
    """DESIGN 8.10: shadowing a core route is a fault."""
    taken = frozenset({("POST", "/jobs/{id}/transitions"), ("POST", "/jobs/{id}/{command}")})
    assert check(define(SAMPLE), taken) == ()
    shadowing = also(routes=(Route("POST", path, command="start"),))
    assert "route" in {fault.rule for fault in check(define(shadowing), taken)}


def test_a_command_must_not_be_named_like_a_core_route() -> None:
    taken = frozenset({("POST", "/jobs/{id}/claim"), ("POST", "/jobs/{id}/{command}")})
    claim = also(commands=(Command("claim", walks={"draft": ()}),))
    assert [fault.rule for fault in check(define(claim), taken)] == ["route"]


def test_a_function_that_hides_its_arguments_is_taken_as_it_is() -> None:
    """Some of Python's own have no signature to look at."""
    definition = Definition(SAMPLE, {**FUNCTIONS, "derive": dict}, {"params": Params})
    assert check(definition) == ()


def test_wildcards_are_seen_through() -> None:
    """An edge from every open state that forgets the hold is found where the hold is."""
    kept = tuple(e for e in EDGES if e.target != "canceled")
    cancel = replace(SAMPLE, edges=(*kept, Edge("*", "canceled", by=("user",))))
    rules = [(fault.rule, fault.trace[-2].split(" by ")[0]) for fault in faults(cancel)]
    assert ("money", "queued -> canceled") in rules
    assert ("money", "draft -> canceled") not in rules


def test_setting_that_nobody_can_switch_on() -> None:
    """A way that depends on a setting needs the setting to be declared."""
    first, *others = SAMPLE.states
    asking = replace(SAMPLE, states=(replace(first, onward_if="in_a_hurry"), *others))
    assert [fault.rule for fault in faults(asking)] == ["unknown-setting"]
    assert faults(replace(asking, settings={"in_a_hurry": True})) == faults(SAMPLE)


def test_every_field_of_a_state_that_names_one_is_looked_at() -> None:
    """A field added to the declaration must be added to the check, too."""
    looked_at = {"onward", "done", "partial", "rejected", "deadline", "retry"}
    of_no_state = {
        "name",
        "kind",
        "stage",
        "limit_s",
        "heartbeat_s",
        "same",
        "entry",
        "ends",
        "fails",
        "remarks",
        "checkpoint",
        "library",
        "produces",
        "along",
        "person",
        "on_demand",
        "dead_letter",
        "sift",
        "onward_if",
        "one_at_a_time",
        "at_a_time",
        "was",
        "remote",
    }
    assert {field.name for field in fields(State)} == looked_at | of_no_state
