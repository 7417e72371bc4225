"""A submission before its turn, over real connections: what is held back, what is turned away, and
what goes by."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import msgspec
import pytest

from jobrunner.config.settings import LimitsSection
from jobrunner.http.frame.sockets import Connection
from jobrunner.http.front.admission import Waiter
from tests.http.fronting import BODY, Shut, chunked, connected, gate, open_wire, submission
from tests.http.serving import House, Said, definitions, opened
from tests.http.test_raw import SMUGGLED

pytestmark = pytest.mark.anyio

HERE = ("howera", "cutx")
PATIENT = LimitsSection(lag=0, patience=600)
AT_ONCE = LimitsSection(lag=0, patience=0)
EVENT = {"status": "UPLOADED", "occurred_at": "2026-01-01T00:00:00Z"}


@pytest.fixture
async def patient(tmp_path: Path, anyio_backend: str) -> AsyncIterator[House]:
    """Whoever has no turn waits as long as the test likes."""
    async with opened(tmp_path, limits=PATIENT, registry=definitions(names=HERE)) as house:
        yield house
        assert (gate(house).inside, len(gate(house))) == (0, 0), "every place was given back"


@pytest.fixture
async def hasty(tmp_path: Path, anyio_backend: str) -> AsyncIterator[House]:
    """Whoever has no turn is turned away at once."""
    async with opened(tmp_path, limits=AT_ONCE, registry=definitions(names=HERE)) as house:
        yield house
        assert (gate(house).inside, len(gate(house))) == (0, 0), "every place was given back"


async def waiting(house: House, count: int) -> None:
    with anyio.fail_after(120):
        while len(gate(house)) != count:
            await anyio.sleep(0.001)


def is_no_turn(said: Said) -> bool:
    assert said.status == 503, said.raw
    assert said.code == "OVERLOADED"
    assert 1 <= int(said.headers["Retry-After"]) <= 4
    assert said.headers["X-Request-Id"] == said.json["correlation_id"] != ""
    return True


async def jobs(house: House) -> int:
    return len((await house.ada.get("/jobs")).json["jobs"])


async def test_whoever_has_no_turn_waits_for_it(patient: House) -> None:
    async with connected(patient) as wire:
        with Shut(gate(patient)):
            await wire.say(submission(patient))
            await waiting(patient, 1)
            assert await jobs(patient) == 0
        assert (await wire.heard()).status == 201
        await wire.say(submission(patient))
        assert (await wire.heard()).status == 201
    assert await jobs(patient) == 2


async def test_whoever_was_answered_waits_before_it_is_read_again(
    patient: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiters, wait = list[Waiter](), gate(patient).wait

    def watched(waiter: Waiter, whose: str) -> None:
        waiters.append(waiter)
        wait(waiter, whose)

    monkeypatch.setattr(gate(patient), "wait", watched)
    read = submission(patient, b"", line=b"GET /jobs")
    async with connected(patient) as wire:
        for before in (read, submission(patient)):
            await wire.say(before)
            await wire.heard()
            with Shut(gate(patient)):
                await wire.say(submission(patient))
                await waiting(patient, 1)
            assert (await wire.heard()).status == 201
    assert [type(waiter) for waiter in waiters] == [Connection] * 2, "and no Turn"


@pytest.mark.parametrize("sent", [submission, chunked])
async def test_users_take_turns_whatever_the_number_of_their_connections(
    patient: House, sent: Callable[..., bytes]
) -> None:
    ada, eve = patient.ada, patient.eve
    for caller in (ada, eve):
        await caller.get("/jobs")
    async with AsyncExitStack() as stack:
        with Shut(gate(patient)):
            for number, caller in enumerate((ada, ada, ada, eve, eve), 1):
                wire = await stack.enter_async_context(connected(patient))
                await wire.say(sent(patient, token=caller.token))
                await waiting(patient, number)
        with anyio.fail_after(120):
            while len(made := (await patient.admin.get("/jobs")).json["jobs"]) < 5:
                await anyio.sleep(0.001)
    assert [job["user_id"] for job in reversed(made)] == ["ada", "eve", "ada", "eve", "ada"]


async def test_strangers_have_one_turn_together(
    patient: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many tokens they make up."""
    turns, wait = list[str](), gate(patient).wait

    def watched(waiter: Waiter, whose: str) -> None:
        turns.append(whose)
        wait(waiter, whose)

    monkeypatch.setattr(gate(patient), "wait", watched)
    await patient.ada.get("/jobs")
    async with AsyncExitStack() as stack:
        with Shut(gate(patient)):
            for number, token in enumerate(("made up", "too", patient.ada.token), 1):
                wire = await stack.enter_async_context(connected(patient))
                await wire.say(submission(patient, token=token))
                await waiting(patient, number)
        with anyio.fail_after(120):
            while not await jobs(patient):
                await anyio.sleep(0.001)
    assert turns == ["", "", "ada"]


async def test_a_connection_stays_what_it_is(hasty: House) -> None:
    """Refused, something else, refused, and in the end a job: all over one connection."""
    read = submission(hasty, b"", line=b"GET /jobs")
    async with connected(hasty) as wire:
        with Shut(gate(hasty)):
            for _ in range(3):
                await wire.say(submission(hasty))
                assert is_no_turn(await wire.heard())
                await wire.say(read)
                assert (await wire.heard()).status == 200
        await wire.say(submission(hasty))
        assert (await wire.heard()).status == 201


async def test_refusals_over_one_connection_are_without_end(hasty: House) -> None:
    """What was turned away counts for nothing that the server underneath has a bound for."""
    sent = submission(hasty, more=b"X-Long: " + b"a" * 4000 + b"\r\n")
    async with connected(hasty) as wire:
        with Shut(gate(hasty)):
            for _ in range(100):
                await wire.say(sent)
                assert is_no_turn(await wire.heard())
        await wire.say(sent)
        assert (await wire.heard()).status == 201


async def test_the_same_words_as_of_every_refusal(hasty: House) -> None:
    """Whether it was turned away at the front or came the ordinary way."""
    said = []
    with Shut(gate(hasty)):
        for sent in (submission(hasty), chunked(hasty)):
            async with connected(hasty) as wire:
                await wire.say(sent)
                said.append(await wire.heard())
    for one in said:
        assert is_no_turn(one)
        one.headers = {
            name: value
            for name, value in one.headers.items()
            if name not in ("Date", "X-Request-Id", "Content-Length", "Retry-After")
        }
        one.raw = msgspec.json.encode(one.json | {"correlation_id": "", "retry_after_s": 0})
    assert said[0] == said[1]


async def test_refusals_are_documented(hasty: House) -> None:
    """The client of these tests compares each answer with the service's own document."""
    with Shut(gate(hasty)):
        for path, body in (
            ("/jobs", {"workflow": "howera"}),
            ("/jobs/", {"workflow": "howera"}),
            ("/api/generate/static-ad", {"product_id": "shoe"}),
            ("/api/generate/copy", {"product_id": "shoe"}),
        ):
            assert is_no_turn(await hasty.ada.post(path, body)), path


@pytest.mark.parametrize(
    ("given", "echoed"),
    [
        ("mine", True),
        ('"quoted\\', True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("two words", False),
        ("", False),
    ],
)
async def test_the_id_of_a_request(hasty: House, given: str, *, echoed: bool) -> None:
    with Shut(gate(hasty)):
        async with connected(hasty) as wire:
            await wire.say(submission(hasty, more=f"x-REQUEST-id: {given}\r\n".encode()))
            said = await wire.heard()
    assert is_no_turn(said)
    assert (said.headers["X-Request-Id"] == given) == echoed
    assert said.headers["X-Request-Id"]


async def test_the_id_is_in_the_log(hasty: House) -> None:
    with Shut(gate(hasty)):
        said = await hasty.ada.post("/jobs", {"workflow": "howera"}, X_Request_Id="mine")
    assert is_no_turn(said)
    (line,) = [line for line in hasty.logged if line["event"] == "http.refused"]
    assert (line["method"], line["route"], line["status"]) == ("POST", "/jobs", 503)
    assert (line["error_code"], line["correlation_id"]) == ("OVERLOADED", "mine")


async def test_everything_else_goes_by(hasty: House) -> None:
    """R12: callbacks, transitions, claims, commands, progress, reads; and the line is asked by
    nobody whether the service is well."""
    made = [await hasty.ada.submit("howera") for _ in range(3)]
    first, second, third = (f"/jobs/{job['id']}" for job in made)
    with Shut(gate(hasty)):
        told = {"event_id": "e", **EVENT}
        said = await hasty.worker.post(f"/internal{first}/status", told)
        assert said.status == 204
        said = await hasty.worker.post(f"{second}/transitions", {"to": "UPLOADED"})
        assert said.status == 200, said.raw
        assert (await hasty.worker.post(f"{second}/progress", {"progress": 5})).status == 200
        claims = await hasty.worker.post("/internal/claims", {"workflow": "cutx"})
        assert claims.status == 200, claims.raw
        assert (await hasty.ada.post(f"{third}/cancel", {})).status == 200
        assert (await hasty.ada.get("/jobs")).status == 200
        assert (await hasty.nobody.get("/healthz")).status == 200
        assert (await hasty.nobody.get("/readyz")).status == 200


async def test_a_replay_has_its_turn_too(hasty: House) -> None:
    body = {"workflow": "howera", "idempotency_key": "mine"}
    job = (await hasty.ada.post("/jobs", body)).json
    with Shut(gate(hasty)):
        assert is_no_turn(await hasty.ada.post("/jobs", body))
    again = await hasty.ada.post("/jobs", body)
    assert (again.status, again.json["replayed"], again.json["id"]) == (200, True, job["id"])


@pytest.mark.parametrize("cut", [21, 30, 100, -len(BODY), -1])
async def test_in_pieces(hasty: House, cut: int) -> None:
    """A head that comes in two, a body that comes later: refused, taken, refused."""
    async with connected(hasty) as wire:
        sent = submission(hasty)
        for shut in (True, False, True):
            if shut:
                with Shut(gate(hasty)):
                    await wire.say(sent[:cut], sent[cut:])
                    assert is_no_turn(await wire.heard())
            else:
                await wire.say(sent[:cut], sent[cut:])
                assert (await wire.heard()).status == 201


@pytest.mark.parametrize("size", [5, 17])
async def test_in_many_pieces(hasty: House, size: int) -> None:
    """Which nobody collects for ever: that is left to the server underneath."""
    sent = submission(hasty)
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    async with connected(hasty) as wire:
        with Shut(gate(hasty)):
            await wire.say(*pieces)
            assert is_no_turn(await wire.heard())
        await wire.say(*pieces)
        assert (await wire.heard()).status == 201


async def test_a_large_one_has_its_turn_as_well(hasty: House) -> None:
    """It is not held back as bytes, and comes to its place the ordinary way."""
    large = msgspec.json.encode({"workflow": "cutx", "params": {"product_id": "x" * 100_000}})
    async with connected(hasty) as wire:
        with Shut(gate(hasty)):
            for _ in range(2):
                await wire.say(submission(hasty, large))
                assert is_no_turn(await wire.heard())
                await wire.say(submission(hasty))
                assert is_no_turn(await wire.heard())
        await wire.say(submission(hasty))
        assert (await wire.heard()).status == 201


async def test_one_after_the_other_without_waiting(patient: House) -> None:
    """What follows on what waits is answered after it."""
    one, other = submission(patient), submission(patient, line=b"POST /jobs/")
    read = submission(patient, b"", line=b"GET /jobs")
    async with connected(patient) as wire, connected(patient) as wire_2:
        with Shut(gate(patient)):
            await wire.say(one)
            await waiting(patient, 1)
            await wire.say(read[:9], read[9:] + other)
            await wire_2.say(one + other + read)
            await waiting(patient, 2)
        assert [(await wire.heard()).status for _ in range(3)] == [201, 200, 201]
        assert [(await wire_2.heard()).status for _ in range(3)] == [201, 201, 200]
    assert await jobs(patient) == 4


async def test_many_at_once_on_one_connection_are_all_refused(hasty: House) -> None:
    async with connected(hasty) as wire:
        with Shut(gate(hasty)):
            await wire.say(submission(hasty) * 5)
            assert [is_no_turn(await wire.heard()) for _ in range(5)] == [True] * 5
    assert await jobs(hasty) == 0


@pytest.mark.parametrize("name", SMUGGLED)
async def test_two_readings_of_one_request_are_none_at_the_front(hasty: House, name: str) -> None:
    """R8: what is framed in two ways is refused as ever, and what follows is no request."""
    headers, body = SMUGGLED[name]
    token = f"Authorization: Bearer {hasty.ada.token}\r\n".encode()
    line = b"POST /jobs HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
    async with connected(hasty) as wire:
        with Shut(gate(hasty)):
            await wire.say(line + token + headers + b"\r\n" + body + submission(hasty))
            assert (await wire.heard()).status in (400, 413)
            assert await wire.hung_up()
    assert await jobs(hasty) == 0


async def test_a_request_within_a_body_is_none(hasty: House) -> None:
    """Bytes of a body that look like a submission are not answered, in whatever pieces."""
    hidden = submission(hasty)
    report = submission(hasty, b"-" * 10 + hidden, line=b"POST /jobs/nobody/progress")
    at = report.index(hidden)
    async with connected(hasty) as wire:
        with Shut(gate(hasty)):
            await wire.say(report[:at], hidden, submission(hasty))
            assert (await wire.heard()).status in (400, 403, 404)
            assert is_no_turn(await wire.heard())


async def test_whoever_hangs_up_waits_no_more(patient: House) -> None:
    with Shut(gate(patient)):
        async with connected(patient) as wire, connected(patient) as other:
            await wire.say(submission(patient))
            await other.say(submission(patient)[:-5])
            await waiting(patient, 1)
        await waiting(patient, 0)
    assert await jobs(patient) == 0


async def test_every_place_is_given_back(patient: House) -> None:
    """Whatever becomes of the request: no token, no JSON, no such workflow, hung up at once."""
    plain = submission(patient)
    for sent in (
        plain.replace(b"Bearer ", b"Bearer x"),
        submission(patient, b"no JSON"),
        submission(patient, b'{"workflow":"none"}'),
        submission(patient, b""),
        submission(patient, line=b"POST /jobs/"),
        submission(patient, b'{"product_id":1}', line=b"POST /api/generate/copy"),
        submission(patient, more=b"X-Long: " + b"a" * 9000 + b"\r\n"),
        submission(patient, more=b"".join(b"X-%d: a\r\n" % n for n in range(200))),
        plain,
        chunked(patient),
    ):
        async with connected(patient) as wire:
            await wire.say(sent)
            assert (await wire.heard()).status in (201, 400, 401, 415, 422), sent
        for _ in range(3):
            async with connected(patient) as wire:
                wire.writer.write(sent)
                await wire.writer.drain()
    with anyio.fail_after(120):
        while gate(patient).inside:
            await anyio.sleep(0.001)


async def test_who_waits_for_the_end_of_a_job_is_in_nobodys_way(patient: House) -> None:
    """``copy`` answers when its job is done; meanwhile its place is for others."""
    before = gate(patient).inside
    async with connected(patient) as wire:
        body = b'{"product_id":"shoe"}'
        await wire.say(submission(patient, body, line=b"POST /api/generate/copy"))
        with anyio.fail_after(120):
            while not await jobs(patient):
                await anyio.sleep(0.001)
            while gate(patient).inside:
                await anyio.sleep(0.001)
        assert gate(patient).inside == before


async def test_when_the_service_stops(tmp_path: Path) -> None:
    """Those who wait are told so; nobody's connection breaks."""
    async with opened(tmp_path, limits=PATIENT, registry=definitions(names=HERE)) as house:
        Shut(gate(house)).__enter__()
        wire = await open_wire(house)
        await wire.say(submission(house))
        await waiting(house, 1)
    assert is_no_turn(await wire.heard())
    assert await wire.hung_up()
    wire.writer.close()


async def test_a_drain_says_so_to_whoever_has_a_turn(patient: House) -> None:
    """And a replay is answered as ever."""
    body = {"workflow": "howera", "idempotency_key": "mine"}
    job = (await patient.ada.post("/jobs", body)).json
    patient.service.facade.world.draining = True
    said = await patient.ada.post("/jobs", {"workflow": "howera"})
    assert (said.status, said.code) == (503, "DRAINING")
    said = await patient.ada.post("/jobs", body)
    assert (said.status, said.json["id"]) == (200, job["id"])
    assert (await patient.nobody.get("/readyz")).status == 503


async def test_refusals_at_the_front_are_counted(hasty: House) -> None:
    async def count(sought: str) -> float:
        text = (await hasty.nobody.get("/metrics")).raw.decode()
        lines = [line for line in text.splitlines() if line.startswith(sought)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    with Shut(gate(hasty)):
        for _ in range(3):
            await hasty.ada.post("/jobs", {"workflow": "howera"})
        taken = gate(hasty).inside
        assert await count("jobrunner_submissions_inside ") == taken
    assert await count('jobrunner_http_refusals_total{code="OVERLOADED"}') == 3
    answered = 'jobrunner_http_request_seconds_count{method="POST",route="/jobs",status="5xx"}'
    assert await count(answered) == 3
    assert await count("jobrunner_submissions_waiting ") == 0
