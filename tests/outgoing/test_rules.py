"""P9: which addresses and URLs stages may reach. No socket is made in this file."""

import io
import ipaddress
import os
import re
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from jobrunner.errors import PermanentFailure, RetryableFailure, StageFault
from jobrunner.outgoing.downloads import Downloader
from jobrunner.outgoing.exchange import OutgoingClient, OutgoingGate
from jobrunner.outgoing.rules import (
    Rules,
    is_public,
    judge,
    judge_named,
    judge_url,
    origin_of,
    origins_of,
    parsed,
    redirected,
    rules_of,
)
from jobrunner.ports import SystemChildren
from tests.outgoing.outlets import INSIDE_4, INSIDE_6, PUBLIC, Lies, Watched, hostile

pytestmark = pytest.mark.anyio

HOSTILE = hostile()
OPEN = Rules()

# Written by hand from the registries, the first and the last address of each block where it helps.
TABLE = {
    True: """
        1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.215.14 100.63.255.255 100.128.0.0
        126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0
        191.255.255.255 192.0.1.0 192.0.3.0 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0
        198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0
        223.255.255.255 168.63.129.15 168.63.129.17
        2001:200::1 2001:4860:4860::8888 2003::1 2400:cb00::1 2606:4700:4700::1111
        2620:fe::fe 2a00:1450:4001::1 2c0f:fb50::1 3ffd::1 ::ffff:8.8.8.8 ::ffff:101:101
    """.split(),
    False: """
        0.0.0.0 0.1.2.3 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200
        100.127.255.255 127.0.0.0 127.255.255.255 168.63.129.16 169.254.0.0 169.254.169.254
        169.254.255.255 172.16.0.0 172.31.255.255 192.0.0.0 192.0.0.8 192.0.0.9 192.0.0.10
        192.0.0.170 192.0.0.255 192.0.2.0 192.0.2.255 192.88.99.1 192.168.0.0 192.168.255.255
        198.18.0.0 198.19.255.255 198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255 224.0.0.0
        224.0.0.1 232.1.2.3 239.255.255.255 240.0.0.0 255.255.255.254 255.255.255.255
        :: ::1 ::2 ::7f00:1 ::808:808 ::ffff:0.0.0.0 ::ffff:127.0.0.1 ::ffff:a00:1
        ::ffff:169.254.169.254 ::ffff:0:808:808 64:ff9b:: 64:ff9b::7f00:1 64:ff9b::808:808
        64:ff9b:1:: 64:ff9b:1:ffff:ffff:ffff:ffff:ffff 100:: 100::1 100:0:0:1::1 200::1 400::1
        1fff:ffff::1 2001:: 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:1::1 2001:2::1 2001:3::1
        2001:4:112::1 2001:10::1 2001:1f::1 2001:20::1 2001:2f:ffff::1 2001:30::1
        2001:1ff:ffff::1 2001:db8::1 2001:db8:ffff::1 2002:: 2002:7f00:1:: 2002:808:808::1
        3ffe::1 3fff::1 3fff:fff::1 4000::1 5f00::1 8000::1 e000::1 fc00::1 fd00:ec2::254 fdff::1
        fe00::1 fe80::1 febf:ffff::1 fec0::1 feff::1 ff00::1 ff02::1 ff05::2 ff0e::1
    """.split(),
}  # fmt: skip


@pytest.mark.parametrize("public", [True, False])
def test_the_judge_agrees_with_a_table_written_by_hand(public: bool) -> None:
    wrong = [text for text in TABLE[public] if (judge(text, 443, OPEN) is None) is not public]
    assert not wrong
    assert len(TABLE[public]) == len(set(TABLE[public])) > 30


@given(st.ip_addresses(), st.sampled_from([80, 443]))
def test_what_passes_is_public_by_every_measure(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int
) -> None:
    if judge(str(address), port, OPEN) is not None:
        return
    real = getattr(address, "ipv4_mapped", None) or address
    assert real.is_global
    kinds = ("multicast", "private", "reserved", "loopback", "link_local", "unspecified")
    assert not [kind for kind in (*kinds, "site_local") if getattr(real, f"is_{kind}", False)]
    assert getattr(real, "sixtofour", None) is None
    assert getattr(real, "teredo", None) is None
    assert real.version == 4 or real in ipaddress.ip_network("2000::/3")
    assert not any(real in ipaddress.ip_network(block) for block in DENIED)


DENIED = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
    192.0.2.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    ::/8 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/32 2001:db8::/32 2002::/16 3fff::/20 fc00::/7
    fe80::/10 fec0::/10 ff00::/8
""".split()


@given(st.ip_addresses(v=4))
def test_an_address_in_the_clothes_of_the_other_family_is_the_same_address(
    address: ipaddress.IPv4Address,
) -> None:
    number = int(address)
    mapped = f"::ffff:{number >> 16:x}:{number & 0xFFFF:x}"
    assert parsed(mapped) == address
    assert (judge(mapped, 80, OPEN) is None) is is_public(address)
    tunnels = (f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1", f"64:ff9b::{address}")
    for text in (*tunnels, f"::{address}", f"64:ff9b:1::{address}"):
        assert judge(text, 80, OPEN)


@pytest.mark.parametrize("port", [0, 1, 22, 79, 81, 442, 8080, 8443, 65535])
def test_a_public_address_is_open_on_two_ports_only(port: int) -> None:
    assert judge(PUBLIC, port, OPEN)
    assert judge(PUBLIC, port, rules_of((), [f"{PUBLIC}:{port}"])) is None


def test_one_private_address_is_opened_with_its_port_and_nothing_beside_it() -> None:
    rules = rules_of((), ["127.0.0.1:9000", "[fd00::5]:443"])
    assert judge("127.0.0.1", 9000, rules) is None
    assert judge("::ffff:127.0.0.1", 9000, rules) is None
    assert judge("fd00:0::5", 443, rules) is None
    for address, port in [
        ("127.0.0.1", 9001), ("127.0.0.1", 80), ("127.0.0.2", 9000), ("::1", 9000),
        ("0.0.0.0", 9000), ("::7f00:1", 9000), ("fd00::5", 80), ("fd00::6", 443),
    ]:  # fmt: skip
        assert judge(address, port, rules), (address, port)


def test_a_refusal_names_the_address_and_the_cure() -> None:
    reason = judge("fd00::7", 8000, OPEN) or ""
    cure = re.search(r"\"(.+)\"", reason)
    assert cure
    assert "fd00::7 is not a public address" in reason
    assert judge("fd00::7", 8000, rules_of((), [cure[1]])) is None


@pytest.mark.parametrize("text", ["", "x", "127.1", "1", "::1%lo", "2606:4700::1%eth0", "１.1.1.1"])
def test_what_is_no_plain_address_is_refused(text: str) -> None:
    assert judge(text, 80, OPEN)
    assert judge_named(text)


def test_a_named_origin_may_lie_inside_but_not_at_the_link_or_nowhere() -> None:
    for text in ("127.0.0.1", "10.1.2.3", "192.168.7.7", "::1", "fd00::5", PUBLIC, "2606:4700::1"):
        assert judge_named(text) is None, text
    for text in (
        "0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255", "::", "fe80::1", "ff02::1",
        "64:ff9b::7f00:1", "2002:7f00:1::", "::ffff:169.254.169.254", "fec0::1", "168.63.129.16",
    ):  # fmt: skip
        assert judge_named(text), text


def test_the_list_of_hosts_compares_names_not_spellings() -> None:
    rules = rules_of(["CDN.Example", "bücher.example"], ["127.0.0.1:9000"])
    for text in (
        "https://cdn.example/a", "http://CDN.EXAMPLE./a", "https://bücher.example/",
        "https://xn--bcher-kva.example/", "http://127.0.0.1:9000/", "http://[::ffff:7f00:1]:9000/",
    ):  # fmt: skip
        assert judge_url(URL(text), rules) is None, text
    for text in (
        "https://example/", "https://a.cdn.example/", "https://cdn.example.evil/",
        "https://evilcdn.example/", f"http://{PUBLIC}/", "http://127.0.0.1:9001/",
        "http://localhost:9000/",
    ):  # fmt: skip
        assert judge_url(URL(text), rules), text


def test_the_origins_of_settings_are_found_however_deep() -> None:
    settings = {
        "base_url": "http://10.0.0.5:11434/v1",
        "voices": [{"url": "HTTPS://Voices.Lan/x"}, {"url": "http://[0:0:0:0:0:0:0:1]:99"}],
        "model": "http is fine", "size": 5, "odd": "http://[::1", "file": "file:///x", "none": None,
        "relative": "http:///x",
    }  # fmt: skip
    assert origins_of(settings) == {
        ("http", "10.0.0.5", 11434),
        ("https", "voices.lan", 443),
        ("http", "::1", 99),
    }
    assert origin_of(URL("https://voices.lan./y?z")) in origins_of(settings)
    assert origin_of(URL("http://voices.lan:443/")) not in origins_of(settings)


def test_an_origin_passes_the_list_of_hosts_but_no_other_rule_of_urls() -> None:
    rules = rules_of(["cdn.example"], [])
    origins = origins_of(["http://10.0.0.5:11434"])
    assert judge_url(URL("http://10.0.0.5:11434/x"), rules, origins) is None
    assert judge_url(URL("http://10.0.0.5:11434/x"), rules)
    assert judge_url(URL("http://u:p@10.0.0.5:11434/x"), rules, origins)
    assert judge_url(URL("http://10.0.0.5:80/x"), rules, origins)


def test_a_redirect_is_read_in_one_way_only() -> None:
    at = URL("https://a.example/x/y?z")
    for location, target in {
        "w": "https://a.example/x/w", "/w#f": "https://a.example/w", "//b.example/w": "https://b.example/w",
        "https://b.example/": "https://b.example/", "?q": "https://a.example/x/y?q",
    }.items():  # fmt: skip
        assert redirected(at, location) == URL(target)
    for location in (
        "http://a.example/", "ftp://a.example/", "https:/b.example/", "https:b.example",
        "https:///b.example/", "file:///etc/passwd", "javascript:1", "https://[::1", "https://a:b/",
    ):  # fmt: skip
        assert redirected(at, location) is None, location
    assert redirected(URL("http://a.example/"), "https://a.example/") == URL("https://a.example/")


# ---------------------------------------------------------------- through the whole way out


async def verdict(gate: OutgoingGate, url: str) -> StageFault:
    with pytest.raises(StageFault) as caught:
        await OutgoingClient(gate).get(url)
    return caught.value


async def test_no_hostile_url_makes_a_connection() -> None:
    """P9 R9: more than 200 notations, tunnels, ports and schemes, with a resolver that answers
    127.0.0.1 to every name: each is refused for good, and no socket is asked for."""
    assert len(set(HOSTILE)) >= 200
    connector = Watched()
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        let_through = []
        for url in HOSTILE:
            fault = await verdict(gate, url)
            if not isinstance(fault, PermanentFailure) or fault.code != "DOWNLOAD_REFUSED":
                let_through.append((url, fault))
    assert not let_through
    assert connector.passed == []
    assert connector.sockets == 0


async def test_the_counter_counts() -> None:
    """The check above could fail: a public address gets as far as its socket."""
    connector = Watched()
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        for url in (f"http://{PUBLIC}/", "https://[2606:4700::1111]/"):
            assert isinstance(await verdict(gate, url), RetryableFailure)
    assert connector.passed == [(PUBLIC, 80), ("2606:4700::1111", 443)]
    assert connector.sockets == 2


@pytest.mark.parametrize("address", [*INSIDE_4, *INSIDE_6])
async def test_a_name_that_leads_inside_is_refused_by_its_address(address: str) -> None:
    connector = Watched(resolver=Lies([address]))
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        fault = await verdict(gate, "https://harmless.example/picture.png")
    assert fault.code == "DOWNLOAD_REFUSED"
    assert connector.sockets == 0


async def test_a_resolver_that_changes_its_mind_changes_nothing() -> None:
    """The address that is judged is the one that is used, however often the name was asked."""
    mixed: list[list[str]] = [["127.0.0.1", PUBLIC], ["::1", PUBLIC], [PUBLIC, "10.0.0.1"]]
    turns: list[list[str]] = [[PUBLIC], ["127.0.0.1"]]
    for answers in (*([answer] for answer in mixed), turns):
        connector = Watched(resolver=Lies(*answers))
        async with aclosing(OutgoingGate(connector, OPEN)) as gate:
            for number in range(3):
                await verdict(gate, f"http://name{number}.example/")
        assert {address for address, _ in connector.passed} <= {PUBLIC}
        assert connector.sockets <= 3


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setitem(os.environ, name, "http://127.0.0.1:3128")
    connector = Watched()
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        await verdict(gate, f"http://{PUBLIC}/")
        await verdict(gate, f"https://{PUBLIC}/")
    assert connector.passed == [(PUBLIC, 80), (PUBLIC, 443)]


async def test_a_refused_connection_leaves_its_place_to_the_next() -> None:
    """More refusals than the pool has places, then one that is let pass."""
    connector = Watched()
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        for number in range(300):
            await verdict(gate, f"http://name{number}.example/")
        await verdict(gate, f"http://{PUBLIC}/")
    assert connector.passed == [(PUBLIC, 80)]


async def test_an_origin_is_open_to_its_plugin_alone() -> None:
    connector = Watched(resolver=Lies(["10.0.0.5"]))
    origins = origins_of({"base_url": "http://model.lan:11434/v1"})
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        owner, stranger = OutgoingClient(gate, origins), OutgoingClient(gate)
        for url in ("http://model.lan:11434/a", "http://MODEL.lan.:11434/b"):
            with pytest.raises(RetryableFailure):
                await owner.post(url, json={})
        assert connector.passed == [("10.0.0.5", 11434)] * 2
        for client, url in [
            (stranger, "http://model.lan:11434/a"),
            (owner, "http://model.lan:11435/a"),
            (owner, "https://model.lan:11434/a"),
            (owner, "http://other.lan:11434/a"),
            (owner, "http://10.0.0.5:11434/a"),
        ]:
            with pytest.raises(PermanentFailure, match="DOWNLOAD_REFUSED"):
                await client.post(url, json={})
    assert len(connector.passed) == 2


async def test_a_plugins_own_name_does_not_lead_to_the_machines_keys() -> None:
    connector = Watched(resolver=Lies(["169.254.169.254"]))
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        client = OutgoingClient(gate, origins_of(["http://model.lan"]))
        with pytest.raises(PermanentFailure, match="no address of a host"):
            await client.get("http://model.lan/latest/meta-data")
    assert connector.sockets == 0


async def test_the_list_of_hosts_is_asked_before_any_name_is_looked_up() -> None:
    connector = Watched(resolver=Lies([PUBLIC]))
    rules = rules_of(["cdn.example"], [])
    async with aclosing(OutgoingGate(connector, rules)) as gate:
        downloader = Downloader(gate, SystemChildren(), 100)
        with pytest.raises(PermanentFailure, match="allow_hosts"):
            await downloader.fetch("https://evil.example/", io.BytesIO())
        with pytest.raises(RetryableFailure):
            await OutgoingClient(gate).get("https://cdn.example/")
    assert connector.passed == [(PUBLIC, 443)]


async def test_no_text_of_a_failure_shows_what_the_url_carried() -> None:
    connector = Watched(resolver=Lies([PUBLIC]))
    async with aclosing(OutgoingGate(connector, OPEN)) as gate:
        for url in (
            "https://a.example/hook/S3CRET?sig=S3CRET", "http://u:S3CRET@a.example/",
            "http://a.example:22/S3CRET", "ftp://a.example/S3CRET", "http://[::1/S3CRET",
        ):  # fmt: skip
            fault = await verdict(gate, url)
            assert "S3CRET" not in str(fault), url
