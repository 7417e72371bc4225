"""The cutx lifecycle: creation, keys, and the routes of old clients."""

from typing import Any

import msgspec
import pytest
from jobrunner_cutx.params import STRUCTS
from jobrunner_cutx.routes import BODIES, delivered, ordered, read_order
from msgspec import Struct

from jobrunner.check.checking import check
from jobrunner.core.decision import Decision, NoOp
from jobrunner.errors import Refused
from tests.driving import (
    ADA,
    ADMIN,
    EVE,
    WORKER,
    World,
    bound,
    code,
)
from tests.plugins.cutx_arranged import (
    ABOUT,
    AT_REST,
    FINAL,
    IN_LINE,
    MOVES,
    PARAMS,
    PRICES,
    REPORTS,
    STATUSES,
    definition,
    processing,
    queued,
)


@pytest.fixture
def world() -> World:
    return World(definition, balance=100)


def test_declaration_is_sound() -> None:
    assert check(definition) == ()
    assert check(bound(definition)) == ()


def test_states_are_the_seven() -> None:
    """C1"""
    assert tuple(definition.states) == STATUSES


@pytest.mark.parametrize("to", STATUSES)
@pytest.mark.parametrize("status", STATUSES)
def test_pair(world: World, status: str, to: str) -> None:
    """C2-C17 C45: thirteen pairs move, each with its log line; 29 others and the 7 repeats are
    refused, changing nothing."""
    job_id = AT_REST[status](world)
    before = world.jobs[job_id]
    assert before.status == status
    said = world.move(job_id, to, ADMIN, **REPORTS.get(to, {}))
    if (status, to) in MOVES:
        assert code(said) == "moved"
        assert world.path(job_id)[-1] == to
        assert len(world.logged(job_id, "job.transition")) == len(world.path(job_id)) - 1
        return
    assert code(said) == ("TERMINAL_STATE" if status in FINAL else "ILLEGAL_TRANSITION")
    assert world.jobs[job_id] is before
    assert isinstance(said, Refused)
    assert said.extra["allowed_next_statuses"] == sorted(b for a, b in MOVES if a == status)


@pytest.mark.parametrize("pair", sorted(MOVES))
def test_who_may_take_an_edge(world: World, pair: tuple[str, str]) -> None:
    """C29 C39: by hand an owner cancels and does nothing else; retrying is an admin's, expiring a
    timer's."""
    status, to = pair
    job_id = AT_REST[status](world)
    before = world.jobs[job_id]
    by_owner = code(world.move(job_id, to, ADA, **REPORTS.get(to, {})))
    assert by_owner == ("moved" if to == "canceled" else "FORBIDDEN")
    if by_owner == "FORBIDDEN":
        assert world.jobs[job_id] is before
        by_worker = code(world.move(job_id, to, WORKER, **REPORTS.get(to, {})))
        closed = {("pending", "queued"), ("processing", "expired")}
        closed |= {("failed", "pending"), ("expired", "pending")}
        assert by_worker == ("FORBIDDEN" if pair in closed else "moved")


@pytest.mark.parametrize("job_type", sorted(PRICES))
def test_birth_charges_and_lines_up(world: World, job_type: str) -> None:
    """C18 C20 C21 C23 C24 C44: row, charge and queue in one decision; types that take long stand
    in `queued`, the two others in `pending`."""
    said = world.submit(job_type, PARAMS[job_type])
    assert isinstance(said, Decision)
    job, price = said.after, PRICES[job_type]
    path = ["pending", "queued"] if job_type in IN_LINE else ["pending"]
    assert ([hop.to_status for hop in said.hops], job.version) == (path, 1)
    assert [entry.kind for entry in said.ledger] == (["charge"] if price else [])
    assert (world.balance(), world.held()) == (100 - price, 0)
    assert job.credits == ("charged" if price else "none")
    assert world.logged(job.id, "job.created") == [{"job_type": job_type, "credits_cost": price}]


def test_default_type_is_copy(world: World) -> None:
    job_id = world.born(params=ABOUT)
    assert world.jobs[job_id].job_type == "copy"


def test_no_credits_no_job() -> None:
    """C18: 402, nothing made, nothing charged."""
    world = World(definition, balance=2)
    said = world.submit("static_ad", ABOUT)
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("INSUFFICIENT_CREDITS", 402)
    assert said.extra == {"balance": 2, "required": 3}
    assert not world.jobs
    assert not world.ledger


def test_free_work_writes_no_ledger_row(world: World) -> None:
    """C32 C40: a cost of 0 moves nothing at birth, on failure, on retry, on refund."""
    world = World(definition, balance=0)
    job_id = world.born("scrape", PARAMS["scrape"])
    world.claim(job_id)
    world.callback(job_id, "e1", "failed", failure_message="no page")
    assert code(world.do(job_id, "retry", ADMIN)) == "moved"
    world.claim(job_id)
    world.callback(job_id, "e2", "completed", result={"title": "Lamp"})
    assert code(world.do(job_id, "refund", ADMIN)) == "noted"
    assert world.ledger == []
    assert world.jobs[job_id].credits == "none"


def test_postponed_job_waits_where_it_was_born(world: World) -> None:
    """C18: charged now, lined up when its time has come."""
    job_id = world.born("static_ad", ABOUT, run_at=world.now + 60_000)
    assert (world.jobs[job_id].status, world.balance()) == ("pending", 97)
    world.fire(job_id, "run_at")
    assert world.jobs[job_id].status == "queued"


@pytest.mark.parametrize("status", STATUSES)
def test_known_key_in_every_status(world: World, status: str) -> None:
    """C34-C38: the same job, its status of today, no second charge."""
    born_as = "static_ad" if status == "queued" else "copy"
    world_submit = world.submit

    def keyed(*args: Any, **more: Any) -> Any:
        return world_submit(*args, **{"key": "k", **more})

    world.submit = keyed  # type: ignore[method-assign]
    job_id = AT_REST[status](world)
    ledger = list(world.ledger)
    said = world.submit(born_as, ABOUT)
    assert isinstance(said, NoOp)
    assert (said.snapshot.id, said.snapshot.status) == (job_id, status)
    assert said.answer == {"replayed": True}
    assert world.ledger == ledger


def test_key_is_per_user(world: World) -> None:
    """C35"""
    world.born("copy", ABOUT, key="k")
    assert code(world.submit("copy", ABOUT, key="k", actor=EVE)) == "moved"


def test_other_body_under_a_known_key(world: World) -> None:
    """C36: the old job, and a word that the order was another."""
    job_id = world.born("copy", ABOUT, key="k")
    said = world.submit("static_ad", {"product_id": "chair-2"}, key="k")
    assert isinstance(said, NoOp)
    assert said.snapshot.id == job_id
    assert said.answer == {"replayed": True, "idempotency_mismatch": True}


def test_known_key_comes_before_the_balance() -> None:
    """C38: a network retry of the order that took the last credit."""
    world = World(definition, balance=1)
    job_id = world.born("copy", ABOUT, key="k")
    said = world.submit("copy", ABOUT, key="k", draining=True)
    assert isinstance(said, NoOp)
    assert said.snapshot.id == job_id


def test_without_a_key_two_orders_are_two(world: World) -> None:
    """C34"""
    assert world.born("copy", ABOUT) != world.born("copy", ABOUT)
    assert world.balance() == 98


def test_key_is_short() -> None:
    """C34"""
    assert definition.workflow.recipe.max_length == 128


def test_routes_are_the_three() -> None:
    """C19 C39"""
    routes = [(route.method, route.path, route.job_type) for route in definition.workflow.routes]
    assert routes == [
        ("POST", "/api/generate/copy", "copy"),
        ("POST", "/api/generate/static-ad", "static_ad"),
        ("POST", "/api/generate/video", "ugc_video"),
    ]
    assert definition.commands["retry"].aliases == ("/api/admin/jobs/{id}/retry",)
    assert [route.wait_s for route in definition.workflow.routes] == [25, 0, 0]


def posted(route: int, text: str) -> tuple[dict[str, Any], str | None]:
    """A body as it comes in, through the struct and the reader of its route."""
    declared = definition.workflow.routes[route]
    struct = definition.structs[declared.body]
    body = msgspec.json.decode(text, type=struct)
    read = definition.functions[declared.read]
    params, key = read(msgspec.to_builtins(body))
    job_type = definition.job_types[declared.job_type]
    msgspec.convert(params, definition.structs[job_type.params])
    return params, key


def test_sample_order_of_old_clients() -> None:
    """C34: a product, a style and a key are enough."""
    text = '{"product_id": "uuid", "style": "lifestyle", "idempotency_key": "user-1-static-v1"}'
    assert posted(1, text) == ({"product_id": "uuid", "style": "lifestyle"}, "user-1-static-v1")


@pytest.mark.parametrize(
    ("route", "text", "params"),
    [
        (0, '{"productId": "p", "customInstructions": "short"}', {"custom_instructions": "short"}),
        (0, '{"product_id": "p", "tone": "luxe", "platform": null}', {"tone": "luxe"}),
        (1, '{"productId": "p", "aspectRatio": "4:5"}', {"aspect_ratio": "4:5"}),
        (1, '{"productId": "p", "aspectRatio": "4:5", "style": null}', {"aspect_ratio": "4:5"}),
        (
            2,
            '{"productId": "p", "projectId": "q", "script": "A"}',
            {"project_id": "q", "script": "A"},
        ),
    ],
)
def test_both_spellings(route: int, text: str, params: dict[str, Any]) -> None:
    """C34: camelCase and snake_case mean the same field."""
    assert posted(route, text) == ({"product_id": "p", **params}, None)


def test_product_in_an_order() -> None:
    """C34: what is known of the product travels with the order."""
    params, _ = posted(
        2, '{"productId": "p", "product": {"name": "Lamp", "features": ["dimmable"]}}'
    )
    assert (params["product"]["name"], params["product"]["features"]) == ("Lamp", ["dimmable"])


def test_equal_twins_are_one() -> None:
    assert posted(0, '{"productId": "p", "product_id": "p"}') == ({"product_id": "p"}, None)


@pytest.mark.parametrize(
    ("one", "other"), [("product_id", "productId"), ("idempotency_key", "idempotencyKey")]
)
def test_unequal_twins_are_refused(one: str, other: str) -> None:
    with pytest.raises(Refused) as refused:
        read_order({"product_id": "p", one: "a", other: "b"})
    assert (refused.value.code, refused.value.status) == ("VALIDATION_ERROR", 400)
    assert refused.value.extra["errors"][0]["path"] == f"$.{one}"


@pytest.mark.parametrize("text", ['{"product_id": 7}', '{"product_id": "p", "colour": "red"}'])
def test_bodies_of_another_shape(text: str) -> None:
    for name in BODIES:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=BODIES[name])


@pytest.mark.parametrize(
    ("job_type", "params"),
    [
        ("copy", {}),
        ("copy", {"product_id": ""}),
        ("copy", {"product_id": "p" * 129}),
        ("copy", {"product_id": "p", "platform": "myspace"}),
        ("copy", {"product_id": "p", "custom_instructions": "x" * 501}),
        ("copy", {"product_id": "p", "productId": "p"}),
        ("static_ad", {"product_id": "p", "style": "baroque"}),
        ("static_ad", {"product_id": "p", "prompt": "four"}),
        ("ugc_video", {"product_id": "p", "aspect_ratio": "2:1"}),
        ("scrape", {"url": "ftp://example.org"}),
        ("scrape", {"url": "https://example.org\n"}),
        ("tts", {"text": " "}),
    ],
)
def test_params_that_are_not_taken(job_type: str, params: dict[str, Any]) -> None:
    """C18: an order is checked before anything is charged."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(params, STRUCTS[job_type])


class Answer(Struct):
    replayed: bool = False
    fields: dict[str, Any] = {}


class Purse(Struct):
    balance: int


def test_answer_of_the_doors(world: World) -> None:
    """C19: what an old client reads: id, status, credits used and left."""
    job = world.jobs[queued(world)]
    assert ordered(job, Answer(), Purse(97)) == {
        "job_id": job.id,
        "status": "queued",
        "credits_used": 3,
        "credits_remaining": 97,
        "replayed": False,
    }


def test_no_variants_of_what_was_not_delivered(world: World) -> None:
    """C25: whatever a failure report brings along."""
    job_id = processing(world)
    world.callback(job_id, "e1", "failed", failure_message="no", result={"variants": ["a"]})
    assert delivered(world.jobs[job_id], Answer(), Purse(9))["variants"] == []


@pytest.mark.parametrize("status", STATUSES)
def test_answer_of_copy(world: World, status: str) -> None:
    """C19 C25: variants once they are there; what was given back was not used."""
    job = world.jobs[AT_REST[status](world)]
    answer = delivered(job, Answer(True, {"idempotency_mismatch": True}), Purse(9))
    assert answer["variants"] == (["a", "b", "c", "d", "e"] if status == "completed" else [])
    assert answer["credits_used"] == (job.cost if job.credits == "charged" else 0)
    assert (answer["replayed"], answer["idempotency_mismatch"]) == (True, True)
