"""One POST through the guard, to receivers of every kind; and which URLs are refused beforehand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from jobrunner.core.features.notifications import Post, TryAnswer
from jobrunner.outgoing.calls import Patience
from jobrunner.outgoing.exchange import OutgoingGate
from jobrunner.outgoing.posts import BODY_READ, EXCERPT_MAX, PATIENCE, misfit_url, tell
from jobrunner.outgoing.rules import rules_of
from tests.outgoing.outlets import INSIDE_4, INSIDE_6, Lies, Loopback, Watched, notations
from tests.receiving import Receiver, Script, Sent, Writer, raw, receiving, says, silence

pytestmark = pytest.mark.anyio

SOON = Patience(connect_s=0.3, idle_s=0.3, total_s=0.3)
HEADERS = {"webhook-id": "n1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
OPEN = rules_of((), ())


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


@pytest.fixture
async def gate(receiver: Receiver) -> AsyncIterator[OutgoingGate]:
    rules = rules_of((), [receiver.place])
    async with aclosing(OutgoingGate(Watched(Loopback), rules)) as found:
        yield found


async def told(
    gate: OutgoingGate, url: str, *, trusted: bool = False, patience: Patience = PATIENCE
) -> TryAnswer:
    return await tell(gate, Post(url, HEADERS, b'{"type":"x"}', trusted), patience)


async def test_it_arrives_as_it_was_signed(receiver: Receiver, gate: OutgoingGate) -> None:
    assert await told(gate, receiver.url("/a?b=c")) == TryAnswer(200)
    (sent,) = receiver.sent
    assert sent.line == "POST /a?b=c HTTP/1.1"
    assert sent.body == b'{"type":"x"}'
    assert sent.headers["content-type"] == "application/json"
    assert HEADERS.items() <= sent.headers.items()
    assert not {"authorization", "cookie"} & set(sent.headers)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(
    receiver: Receiver, gate: OutgoingGate, status: int
) -> None:
    receiver.scripts = [says(f"{status} Moved", Location=receiver.url("/elsewhere"))]
    heard = await told(gate, receiver.url())
    assert (heard.status, heard.well, heard.hopeless) == (status, False, False)
    assert [sent.line for sent in receiver.sent] == ["POST /hook HTTP/1.1"]


async def test_patience_that_is_asked_for_is_heard(receiver: Receiver, gate: OutgoingGate) -> None:
    receiver.scripts = [
        says("429 Slow", b"slow\r\ndown \x1b[31m", Retry_After="120"),
        says("503 Off", Retry_After="x"),
    ]
    first = await told(gate, receiver.url())
    assert (first.status, first.retry_after_s) == (429, 120)
    assert first.error == "answered 429: slow down [31m"
    assert (await told(gate, receiver.url())).retry_after_s == 0


async def test_gone(receiver: Receiver, gate: OutgoingGate) -> None:
    receiver.scripts = [says("410 Gone")]
    assert (await told(gate, receiver.url())).status == 410


async def drip(sent: Sent, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 ")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("script", [silence, drip])
async def test_one_that_hangs_costs_its_time(
    receiver: Receiver, gate: OutgoingGate, script: Script
) -> None:
    receiver.scripts = [script]
    heard = await told(gate, receiver.url(), patience=SOON)
    assert (heard.status, heard.hopeless) == (None, False)
    assert heard.error


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 2", b"\x00\xff\x00", b"SSH-2.0-x\r\n"])
async def test_one_that_closes_in_the_middle_has_not_answered(
    receiver: Receiver, gate: OutgoingGate, data: bytes
) -> None:
    receiver.scripts = [raw(data)]
    heard = await told(gate, receiver.url())
    assert (heard.status, heard.hopeless) == (None, False)
    assert heard.error


async def test_a_success_counts_from_its_status_line_on(
    receiver: Receiver, gate: OutgoingGate
) -> None:
    """Its body is not waited for, whether it is torn, endless or never comes."""

    async def unending(sent: Sent, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 202 Fine\r\nContent-Length: 999999\r\n\r\n")
        await silence(sent, writer)

    receiver.scripts = [unending, raw(b"HTTP/1.1 200 Fine\r\nContent-Length: 9\r\n\r\nx")]
    assert await told(gate, receiver.url()) == TryAnswer(202)
    assert (await told(gate, receiver.url())).well


async def test_no_more_is_read_of_a_refusal_than_a_line(
    receiver: Receiver, gate: OutgoingGate
) -> None:
    poured = 0

    async def flood(sent: Sent, writer: Writer) -> None:
        nonlocal poured
        writer.write(b"HTTP/1.1 500 Oh\r\nContent-Length: 999999999\r\n\r\n")
        while poured < 64 * 1024**2:
            writer.write(b"a" * 65536)
            poured += 65536
            await writer.drain()

    receiver.scripts = [flood]
    heard = await told(gate, receiver.url())
    assert heard.status == 500
    assert len(heard.error) <= EXCERPT_MAX + 20 < BODY_READ
    assert poured < 32 * 1024**2


async def test_nobody_there(gate: OutgoingGate, receiver: Receiver) -> None:
    receiver.scripts = [silence]
    async with receiving() as other:
        place = other.url()
    rules = rules_of((), [place.removeprefix("http://").partition("/")[0]])
    async with aclosing(OutgoingGate(Watched(Loopback), rules)) as open_there:
        heard = await told(open_there, place)
    assert (heard.status, heard.hopeless) == (None, False)


# ---------------------------------------------------------------- inside


@pytest.mark.parametrize("address", [*INSIDE_4, *INSIDE_6])
async def test_a_name_that_leads_inside_is_met_by_the_guard(address: str) -> None:
    """R9: no socket is made, and the delivery is given up at once: it was an attack or a slip."""
    connector = Watched(resolver=Lies([address]))
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        heard = await told(gate, "https://hooks.example.com/x?key=secret")
    assert heard.hopeless
    assert connector.sockets == 0
    assert "secret" not in heard.error


async def test_the_operators_own_url_may_lead_inside_and_a_users_may_not(
    receiver: Receiver,
) -> None:
    async with aclosing(OutgoingGate(Watched(Loopback), OPEN)) as gate:
        assert (await told(gate, receiver.url(), trusted=True)).well
        assert (await told(gate, receiver.url())).hopeless
    assert len(receiver.sent) == 1


async def test_the_operators_url_never_leads_to_the_link_itself() -> None:
    connector = Watched(resolver=Lies(["169.254.169.254"]))
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        assert (await told(gate, "http://meta.example.com/", trusted=True)).hopeless
    assert connector.sockets == 0


async def test_a_header_is_never_two(receiver: Receiver, gate: OutgoingGate) -> None:
    receiver.scripts = [says("200 OK")]
    url = receiver.url("/a%0d%0aX-Evil:%201?b=%0d%0aX-Evil:%202")
    assert (await told(gate, url)).well
    (sent,) = receiver.sent
    assert "x-evil" not in sent.headers


FINE = """
    https://hooks.example.com/a/b?c=d https://hooks.example.com:443/ https://1.1.1.1/hook
    https://[2606:4700:4700::1111]/ https://xn--bcher-kva.example/ http://127.0.0.1:9000/hook
    https://127.0.0.1:9000/hook http://[::1]:9001/
""".split()
REFUSED = """
    http://hooks.example.com/ http://1.1.1.1/ https://hooks.example.com:8443/ ftp://a.example/
    https://user@a.example/ https://user:word@a.example/ https://:word@a.example/
    https://a.example/#part http://127.0.0.1:9001/ http://127.0.0.1/ https://localhost/
    https://LOCALHOST./ https://a.localhost/ https://printer.local/ https://db.internal/
    https://a.example:0/ https://a.example:99999/ https:///x https://[fe80::1%25eth0]/
    https://a..example/ https://exa$mple.com/ http://localhost:9000/ file:///etc/passwd
""".split()


@pytest.mark.parametrize("url", FINE)
def test_a_url_that_may_be_told(url: str) -> None:
    assert misfit_url(url, rules_of((), ["127.0.0.1:9000", "[::1]:9001"])) is None


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_is_refused_at_the_door(url: str) -> None:
    reason = misfit_url(url, rules_of((), ["127.0.0.1:9000", "[::1]:9001"]))
    assert reason
    assert "word" not in reason


@pytest.mark.parametrize("address", INSIDE_4)
async def test_an_address_inside_is_refused_however_it_is_written(address: str) -> None:
    """R9: at the door where the URL says it; what no parser takes for an address is a name there,
    and meets the guard when it is looked up."""
    assert misfit_url(f"https://{address}/", OPEN)
    assert misfit_url(f"https://[::ffff:{address}]/", OPEN)
    connector = Watched(resolver=Lies([address]))
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        for host in notations(address):
            url = f"https://{host}/"
            assert misfit_url(url, OPEN) or (await told(gate, url)).hopeless, url
    assert connector.sockets == 0


@pytest.mark.parametrize("address", INSIDE_6)
def test_so_is_one_of_the_newer_kind(address: str) -> None:
    assert misfit_url(f"https://[{address}]/", OPEN)


def test_only_the_hosts_that_the_operator_named() -> None:
    rules = rules_of(["hooks.example.com"], ())
    assert misfit_url("https://hooks.example.com/", rules) is None
    assert misfit_url("https://other.example.com/", rules)
