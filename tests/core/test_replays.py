"""Decisions on record: whatever was decided, wherever, comes out the same when it is read back and
decided again; under another declaration it is told where it does not."""

from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from msgspec.structs import replace

from jobrunner.core.decide import born, decide
from jobrunner.core.decision import Decision
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.upgrades.replays import (
    HIDDEN,
    Recorded,
    recorded,
    replayed,
    without_payloads,
)
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import Beat, Claim, Do, Message, Moment, Move, Report, Submit
from tests.core.explore import births_of, explore, plenty
from tests.core.test_rebinding import PLAIN
from tests.core.test_totality import PARAMS
from tests.driving import ADA, NOON, WORKER, World, bound, outside, varied
from tests.standing import CUTX

A_FEW = 60


def through_json(record: Recorded) -> Recorded:
    return msgspec.json.decode(msgspec.json.encode(record), type=Recorded)


@pytest.mark.parametrize("house", [True, False], ids=["in the house", "outside"])
@pytest.mark.parametrize("name", PLAIN)
def test_every_decision_is_the_same_when_it_is_made_again(name: str, house: bool) -> None:
    definition = (bound if house else outside)(PLAIN[name])
    pinned = {definition.digest: definition}
    seen = 0

    def visit(job: Snapshot, message: Message, facts: Any, said: Any) -> None:
        nonlocal seen
        if not isinstance(said, Decision):
            return
        now = said.after.updated_at
        moment = Moment(now, f"run-{job.version + 1}")
        record = recorded(said, message, facts, moment, based=True)
        if record is None:
            assert isinstance(message, Beat)
            return
        (told,) = replayed([through_json(record)], pinned)
        assert told.differs == (), (message, told)
        seen += 1

    list(explore(definition, births_of(definition, PARAMS), A_FEW, visit))
    assert seen > 20


def test_a_whole_life_is_decided_again_from_its_birth() -> None:
    definition = outside(CUTX.definition)
    records, pinned = life(definition)
    told = list(replayed(records, pinned))
    assert [one.differs for one in told] == [()] * len(records)
    assert told[0].before == ""
    assert told[-1].then.status == "canceled"


def test_another_declaration_shows_where_it_would_have_gone_otherwise() -> None:
    """The second step leads elsewhere there, and everything after it follows from that."""
    definition = outside(CUTX.definition)
    records, pinned = life(definition)
    edges = tuple(
        replace(edge, by=("timer",)) if edge.target == "canceled" else edge
        for edge in definition.workflow.edges
    )
    commands = tuple(
        replace(one, walks={}) if one.name == "cancel" else one
        for one in definition.workflow.commands
    )
    other = varied(definition, edges=edges, commands=commands, version="2")
    told = list(replayed(records, pinned, other))
    assert not told[0].differs
    assert told[-1].differs == ("verdict",)
    assert told[-1].why.startswith("ILLEGAL_TRANSITION: ")


def test_a_declaration_that_is_not_there_is_said() -> None:
    records, _ = life(outside(CUTX.definition))
    told = list(replayed(records, {}))
    assert {one.why for one in told} == {"the declaration is not in this record"}


def test_a_record_without_a_beginning_says_so() -> None:
    records, pinned = life(outside(CUTX.definition))
    told = list(replayed(records[1:], pinned))
    assert {one.why for one in told} == {"nothing of the job is on record before this"}


def test_nobodys_token_is_on_record() -> None:
    world = World(outside(CUTX.definition))
    job_id = world.born("static_ad", {"product_id": "lamp-7"})
    actor = Actor("ada", "user", token="the-id", replaced=("older",), workflows=("cutx",))
    message = Do(actor, "cancel")
    said = world.tell(job_id, message)
    assert isinstance(said, Decision)
    record = recorded(said, message, plenty(), Moment(NOON))
    assert record is not None
    assert b"the-id" not in msgspec.json.encode(record)
    assert record.message.actor == Actor("ada", "user")  # type: ignore[union-attr]


def test_payloads_are_hidden_and_all_else_stays() -> None:
    records, pinned = life(outside(CUTX.definition))
    secret = Move(Actor("w", "workflow"), "done", Report(result={"text": ["words"], "n": 3}))
    said = msgspec.to_builtins([*records, replace(records[0], message=secret)])
    hidden = without_payloads(said)
    assert "lamp-7" in msgspec.json.encode(said).decode()
    text = msgspec.json.encode(hidden).decode()
    assert "lamp-7" not in text
    assert "words" not in text
    report = hidden[-1]["message"]["report"]
    assert report["result"] == {"text": [HIDDEN], "n": 3}
    again = msgspec.convert(hidden[:-1], list[Recorded])
    assert [one.differs for one in replayed(again, pinned)] == [()] * len(records)


# The texts of a record that nobody wrote for a reader: names of declared things, ids, digests,
# keys, roles, and who it was.
STAYS = """
    artifact asset asset_type asset_types attempt awaits body_digest by claimant code command
    credits digest failed_stage failure_code forked_from giver halted_stages holder id
    idempotency_key ids job_id job_type key lent mark name new_id nonce notify_on opened_by
    opener outcome path place questions rates replaced run_id runs said scope settles sha256
    source stage state status struct takes_from timers to token traceparent tries upgrade upload
    user_id verified webhook_id worked workflow workflows
""".split()


def told_in(kind: Any, seen: set[Any]) -> set[str]:
    """The names of all fields below a struct that may hold a text."""
    found: set[str] = set()
    if kind in seen:
        return found
    seen.add(kind)
    for field in msgspec.structs.fields(kind):
        inner = parts_of(field.type)
        if inner & {str, Any}:
            found.add(field.name)
        for one in inner:
            if isinstance(one, type) and issubclass(one, msgspec.Struct):
                found |= told_in(one, seen)
    return found


def parts_of(kind: Any) -> set[Any]:
    inner = get_args(kind)
    if get_origin(kind) is Literal:
        return set()
    return set().union(*map(parts_of, inner)) if inner else {kind}


def test_every_text_of_a_record_is_hidden_or_known_to_stay() -> None:
    """So a field that is new is one or the other, by somebody's decision."""
    names = told_in(Recorded, set())
    assert {"text", "stuck", "params", "storage_path", "key"} <= names
    left = {name for name in names if "Ann" in str(without_payloads({name: "Ann"}))}
    assert sorted(left) == STAYS


@pytest.mark.parametrize(
    "said",
    [
        {"posed": {"text": "May Ann come?", "default": {"said": ["Ann"]}}},
        {"params": {"guests": {"Ann Example": {"Ann": 1}, "n": 2}}},
        {
            "params": {
                "who": {"name": "Ann", "version": 1, "value": 2, "created_at": 3, "id": "Ann"}
            }
        },
        {"artifacts": {"who": {"name": "Ann", "version": 1, "value": 2, "created_at": "Ann"}}},
        {"artifacts": {"who": {"name": "who", "version": 1, "value": {"n": "Ann"}, "more": "Ann"}}},
        {"labels": {"ann": "x", "Ann": "y"}},
        {"singleton": {"key": "Ann", "mode": "last", "quiet_s": 3}},
        {"base": {"turn_key": "Ann", "stuck": "Ann is not there", "correlation_id": "Ann"}},
        {"assets": [{"id": "1", "storage_path": "ada/1/Ann.pdf"}]},
    ],
)
def test_no_word_hides_in_a_shape(said: dict[str, Any]) -> None:
    hidden = msgspec.json.encode(without_payloads(said)).decode()
    assert "ann" not in hidden.lower()


def life(definition: Definition) -> tuple[list[Recorded], dict[str, Definition]]:
    """Born, claimed, cancelled."""
    name = definition.workflow.name
    submit = Submit(ADA, name, "static_ad", {"product_id": "lamp-7"}, "job-1")
    facts = plenty()
    messages: list[Any] = [submit, Claim(WORKER), Do(ADA, "cancel")]
    records, job = [], None
    for number, message in enumerate(messages):
        moment = Moment(NOON + number * 1000, f"id-{number}")
        if job is None:
            said = born(definition, submit, facts, moment, ())
        else:
            said = decide(definition, job, message, facts, moment)
        assert isinstance(said, Decision), said
        job = replace(said.after, row=1)
        record = recorded(said, message, facts, moment)
        assert record is not None
        records.append(through_json(record))
    return records, {definition.digest: definition}
