"""A proof is given what its stages need: who answers, files, a library, slots, answers."""

import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from jobrunner_hello import definition as hello
from msgspec import Struct
from msgspec.structs import replace

from jobrunner import (
    Context,
    Definition,
    Done,
    Heard,
    PlainContext,
    RetryableFailure,
    Source,
    Stage,
    State,
    Upload,
)
from jobrunner.testing import CALM, prove
from jobrunner.testing.providers import Call, Delivery, ScriptedProvider, Status, signed
from jobrunner.testing.simulation.granted import Endowment
from tests.testing.planted import SOUND, never_done, stage_of
from tests.testing.planted import Planted as Kind

LAMP = "018f0000-0000-7000-8000-000000000001"
SHOP = "https://shop.invalid"


class Wish(Struct, frozen=True):
    lamp: str


def answer(call: Call) -> dict[str, Any]:
    return {"number": "n-1", "for": call.json["name"]}


def shop() -> ScriptedProvider:
    """It takes orders, and says by webhook when they are done."""

    def taken(call: Call) -> Any:
        provider.tell(call.json["hook"], {"number": call.json["name"], "state": "done"}, later_s=7)
        return 201, {"number": call.json["name"]}

    def shown(call: Call) -> Any:
        return {"number": call.path.rpartition("/")[2]}

    provider = ScriptedProvider(
        {"take": ("POST", "/orders", taken), "show": ("GET", "/orders/{number}", shown)}
    )
    return provider


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
def test_who_answers_on_the_network(plain: bool) -> None:
    provider = ScriptedProvider({"take": ("POST", "/orders", answer)})
    provider.script("take", Status(503), None)

    async def asking(ctx: Context[Any]) -> Done:
        headers = {"Idempotency-Key": ctx.idempotency_key()}
        said = await ctx.http.post(f"{SHOP}/orders", json={"name": "ada"}, headers=headers)
        return Done(result=said.json())

    def plainly(ctx: PlainContext[Any]) -> Done:
        headers = {"Idempotency-Key": ctx.idempotency_key()}
        said = ctx.http.post(f"{SHOP}/orders", json={"name": "ada"}, headers=headers)
        return Done(result=said.json())

    stage = Stage(SOUND, plainly if plain else asking)
    assert prove(hello, [stage], http={SHOP: provider}, seeds=range(3)).ended[SOUND]["done"]
    proof = prove(hello, [stage], http=provider, faults=CALM, seeds=range(4))
    assert proof.ended[SOUND]["done"]
    assert proof.ended[SOUND]["REMOTE_FAILED"] > 1, "each seed has its script from the start"


def test_a_webhook_finds_its_way_in_simulated_time() -> None:
    def read(body: bytes, headers: Any) -> Heard:
        told = __import__("json").loads(body)
        return Heard(told["number"], told)

    async def waiting(ctx: Context[Any]) -> Done:
        async def order() -> str:
            key, hook = ctx.idempotency_key("order"), ctx.callback_url("shop")
            said = await ctx.http.post(
                f"{SHOP}/orders", json={"name": ctx.job_id, "hook": hook},
                headers={"Idempotency-Key": key},
            )  # fmt: skip
            return str(said.json()["number"])

        number = await ctx.once("order", order)
        return Done(result=await ctx.await_callback(number, 30, source="shop"))

    stages: list[Stage | Source] = [Stage(SOUND, waiting), Source("shop", read)]
    proof = prove(hello, stages, http=shop(), seeds=range(4))
    assert proof.ended[SOUND]["parked"] >= proof.ended[SOUND]["done"] > 0


def test_answers_come_to_whoever_awaits_them() -> None:
    async def waiting(ctx: Context[Any]) -> Done:
        return Done(result=await ctx.await_callback("number", 30))

    stage = Stage(SOUND, waiting)
    proof = prove(hello, [stage], answers={"number": 12}, seeds=range(3))
    assert proof.ended[SOUND]["done"]
    with pytest.raises(AssertionError, match=r"never came to done.*give answers="):
        prove(hello, [stage], seeds=range(3))


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
def test_a_library_is_there(plain: bool) -> None:
    async def reading(ctx: Context[Any]) -> Done:
        held = await ctx.asset(LAMP)
        with open(held.path, "rb") as file:
            return Done(result=file.read().decode())

    def plainly(ctx: PlainContext[Any]) -> Done:
        with open(ctx.asset(LAMP).path, "rb") as file:
            return Done(result=[file.read().decode(), len(ctx.library())])

    stage = Stage(SOUND, plainly if plain else reading)
    proof = prove(hello, [stage], assets={LAMP: ("image", b"a lamp")}, seeds=range(3))
    assert proof.ended[SOUND]["done"]
    with pytest.raises(AssertionError, match=r"ASSET_NOT_FOUND.*give assets="):
        prove(hello, [stage], seeds=range(2))
    with pytest.raises(AssertionError, match="is no id"):
        prove(hello, [stage], assets={"lamp": ("image", b"a lamp")}, seeds=range(2))


def test_files_of_people_come_in() -> None:
    async def reading(ctx: Context[Any]) -> Done:
        with open(await ctx.file("film_uri"), "rb") as film:
            return Done(result=film.read().decode())

    given: dict[str, Any] = {"seeds": range(4), "uploads": {"film": b"a film"}}
    proof = prove(with_upload(), [Stage(SOUND, reading)], **given)
    assert proof.ended[SOUND]["done"]
    with pytest.raises(AssertionError, match=r"uploads=\['picture'\]"):
        prove(with_upload(), [Stage(SOUND, reading)], uploads={"picture": b"x"}, seeds=range(1))


def with_upload() -> Definition:
    """Like hello, but a job waits for its film first."""
    workflow = hello.workflow
    edges = tuple(
        replace(one, by=("user", "admin", "workflow", "engine")) for one in workflow.edges
    )
    first = replace(workflow.states[0], kind="queued")
    upload = Upload("film", walks={"waiting": ("queued",)}, asset_type="film", artifact="film_uri")
    whole = replace(
        workflow,
        initial="waiting",
        states=(State("waiting", "waiting"), first, *workflow.states[1:]),
        edges=(replace(edges[0], source="waiting", target="queued", by=("user",)), *workflow.edges),
        uploads=(upload,),
    )
    return Definition(whole, hello.functions, hello.structs, settings=hello.settings)


def test_slots_are_granted() -> None:
    async def drawing(ctx: Context[Any]) -> Done:
        return Done()

    stage = Stage(SOUND, drawing, resources={"gpu": 1})
    with pytest.raises(AssertionError, match=r"resources=\{'gpu': 1\}"):
        prove(hello, [stage], seeds=range(1))
    assert prove(hello, [stage], resources={"gpu": 1}, seeds=range(3)).ended[SOUND]["done"]


def test_a_stage_that_is_never_done_is_listed() -> None:
    """And nothing that is done."""
    stage = stage_of(Kind(never_done, ""))
    assert prove(hello, [stage], never_done=(SOUND,), seeds=range(3)).ended[SOUND]
    with pytest.raises(AssertionError, match="never came to done in 3 seeds"):
        prove(hello, [stage], seeds=range(3))
    sound = Stage(SOUND, _sound)
    with pytest.raises(AssertionError, match="which came to done"):
        prove(hello, [sound], never_done=(SOUND,), seeds=range(3))
    with pytest.raises(AssertionError, match="which was not given"):
        prove(hello, [sound], never_done=("hello.other",), seeds=range(3))
    with pytest.raises(AssertionError, match="no state of the workflow binds it"):
        prove(hello, [sound, Stage("hello.other", _sound)], seeds=range(1))


async def _sound(ctx: Context[Any]) -> Done:
    return Done()


def test_where_all_is_well_nothing_is_cut() -> None:
    """Nobody dies and nobody is stopped where nothing is to go wrong, but for the network."""
    proof = prove(hello, [Stage(SOUND, _sound)], faults=CALM, seeds=range(3))
    assert proof.lives == proof.seeds


def test_a_harmless_request_is_named() -> None:
    async def searching(ctx: Context[Any]) -> Done:
        said = await ctx.http.post(f"{SHOP}/orders", json={"name": "ada"})
        if ctx.attempt == 1:
            raise RetryableFailure("BUSY", "not yet")
        return Done(result=said.json())

    stage, provider = Stage(SOUND, searching), ScriptedProvider({"s": ("POST", "/orders", answer)})
    with pytest.raises(AssertionError, match="before its once"):
        prove(hello, [stage], http=provider, seeds=range(3))
    harmless = (f"POST {SHOP}/*",)
    assert prove(hello, [stage], http=provider, harmless=harmless, seeds=range(3)).jobs["greeted"]


@pytest.mark.anyio
async def test_a_provider_of_ones_own_on_loopback() -> None:
    """Routes with parts, faults, keys that are remembered, webhooks that are signed."""
    heard: list[tuple[bytes, dict[str, str]]] = []

    def hears(call: Call) -> Any:
        heard.append((call.body, call.headers))
        return None

    async with (
        shop() as provider,
        ScriptedProvider({"hook": ("POST", "/hook", hears)}) as listener,
        aiohttp.ClientSession() as session,
    ):
        provider.script("take", Status(500), None)
        order = {"name": "n-7", "hook": f"{listener.url}/hook"}
        statuses = []
        for _ in range(3):
            async with session.post(
                f"{provider.url}/orders", json=order, headers={"Idempotency-Key": "k"}
            ) as said:
                statuses.append(said.status)
        assert statuses == [500, 201, 201]
        provider.never_twice("take")
        async with session.get(f"{provider.url}/orders/n-7") as said:
            assert (await said.json()) == {"number": "n-7"}
        provider.tell(order["hook"], {"state": "done"}, how=Delivery(times=2))
        await listener.called("hook", 2)
    body, headers = heard[0]
    wanted = signed(provider.secret, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == wanted["webhook-signature"]


def test_the_poster_is_proved(whatever_happens: Callable[..., Any]) -> None:
    """The doors of the fixture are those of prove."""
    assert whatever_happens(hello, [Stage(SOUND, _sound)], seeds=range(2)).seeds == 2


def test_temporary_files_go_with_the_attempt() -> None:
    """As they do in the service: with a name, and without one."""

    def drafting(ctx: PlainContext[Any]) -> Done:
        handle, path = tempfile.mkstemp()
        os.close(handle)
        with tempfile.TemporaryFile() as file:
            file.write(b"nobody sees this")
        return Done(result=path.startswith(ctx.scratch))

    proof = prove(hello, [Stage(SOUND, drafting)], seeds=range(2))
    assert proof.ended[SOUND]["done"]


def test_what_a_stage_measures_is_not_what_it_decides() -> None:
    """How long it took and when it was may be said; a seed that is run twice is one story."""

    async def measuring(ctx: Context[Any]) -> Done:
        began = time.perf_counter()
        at = datetime.now(UTC)
        took: dict[str, Any] = {"took_s": time.perf_counter() - began, "at": at.isoformat()}
        await ctx.progress(50, f"after {time.perf_counter()} s")
        return Done(
            result={**took, "ms": int(time.time() * 1000)}, artifacts={"metrics": took["at"]}
        )

    assert prove(hello, [Stage(SOUND, measuring)], seeds=range(3)).ended[SOUND]["done"]


@pytest.mark.parametrize("answers", [{"sale": "yes"}, {"?sale": "yes"}, lambda name: "yes"])
def test_a_question_is_answered_by_its_name_and_a_wait_for_children_by_nobody(answers: Any) -> None:
    given = Endowment(answers=answers)
    assert given.answer("?sale") == "yes"
    assert given.answer("") is None
