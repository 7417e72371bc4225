"""Those who ask: wrk where it is installed, else processes of our own; and how busy they were.

A figure counts only while the client had time to spare, so each comes with the share of a core that
its client used.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from jobrunner.bench.load import MARK, LoadOrder, Measured, at_share

BUSY_MAX = 0.85
OWN_PROCESSES = max(min((os.cpu_count() or 1) - 1, 4), 1)
TIMEOUT_S = 60
# wrk hands its lines of this text to Lua. A request is a text with a number in it that is its own.
SCRIPT = """
local heads, tails, number = {{{heads}}}, {{{tails}}}, {first}
request = function()
  number = number + 1
  local which = number % #heads + 1
  return heads[which] .. {filled} .. tails[which]
end
done = function(summary, latency, requests)
  local errors = summary.errors
  io.stderr:write(string.format('{{"all":%d,"us":%d,"p50":%d,"p99":%d,"refused":%d,"broken":%d}}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
"""


class Answers(Struct, frozen=True):
    """``good`` are answers below 400. ``used_s`` is the CPU of all clients together, ``busy`` the
    share of a core that the busiest of them took."""

    seconds: float
    good: int
    refused: int
    broken: int
    p50_ms: float
    p99_ms: float
    used_s: float
    busy: float

    @property
    def per_s(self) -> float:
        return self.good / self.seconds


class WrkSummary(Struct, frozen=True):
    """The last line of wrk."""

    all: int
    us: int
    p50: float
    p99: float
    refused: int
    broken: int


def name() -> str:
    return "wrk" if shutil.which("wrk") else f"{OWN_PROCESSES} processes of our own"


def again_and_again(
    url: str, requests: Sequence[bytes], clients: int, seconds: float, first: int = 0
) -> Answers:
    """Ask over so many connections, each as soon as it was answered. What stands for ``MARK`` is
    another number in each request, from ``first`` on."""
    if shutil.which("wrk"):
        return _by_wrk(url, requests, clients, seconds, first)
    return _by_our_own(url, requests, clients, seconds, first)


def once_each(url: str, requests: Sequence[bytes], clients: int) -> Answers:
    """Send all of these, over so many connections."""
    clients = min(clients, len(requests))
    return _summed([_finished(_begun(LoadOrder(url, list(requests), clients)))])


def one_client(
    url: str, requests: Sequence[bytes], seconds: float, first: int = 0, rest_s: float = 0
) -> Answers:
    """Ask these in turn over one connection, with a rest between two requests."""
    asked = LoadOrder(url, list(requests), 1, seconds, first, rest_s, in_turn=True)
    return _summed([_finished(_begun(asked))])


def _by_wrk(
    url: str, requests: Sequence[bytes], clients: int, seconds: float, first: int
) -> Answers:
    with tempfile.NamedTemporaryFile("w", suffix=".lua", encoding="latin-1") as script:
        script.write(scripted(requests, first))
        script.flush()
        before = _children_s()
        command = ["wrk", "-t1", f"-c{clients}", f"-d{max(round(seconds), 1)}s"]
        command += ["--timeout", f"{TIMEOUT_S}s", "-s", script.name, url]
        ran = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=True)
        used_s = _children_s() - before
    return read_told(ran.stderr, used_s)


def scripted(requests: Sequence[bytes], first: int) -> str:
    """The requests as wrk is told them."""
    parts = [one.decode("latin-1").partition(MARK.decode()) for one in requests]
    numbered = any(mark for _, mark, _ in parts)
    return SCRIPT.format(
        heads=", ".join(_quoted(head) for head, _, _ in parts),
        tails=", ".join(_quoted(tail) for _, _, tail in parts),
        first=first,
        filled="string.format('%012d', number)" if numbered else "''",
    )


def _quoted(text: str) -> str:
    """A text as Lua writes it."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + plain.replace("\r", "\\r").replace("\n", "\\n") + '"'


def read_told(stderr: str, used_s: float) -> Answers:
    told = msgspec.json.decode(stderr[stderr.index("{") :], type=WrkSummary)
    seconds = told.us / 1e6
    good = told.all - told.refused
    delays = told.p50 / 1e3, told.p99 / 1e3
    return Answers(seconds, good, told.refused, told.broken, *delays, used_s, used_s / seconds)


def _children_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _by_our_own(
    url: str, requests: Sequence[bytes], clients: int, seconds: float, first: int
) -> Answers:
    """Connections and numbers are dealt out to as many processes as there are cores to spare."""
    processes = min(OWN_PROCESSES, clients)
    share = 10**11 // processes
    begun = []
    for place in range(processes):
        some = clients // processes + (place < clients % processes)
        begins = first + place * share
        asked = LoadOrder(url, list(requests), some, seconds, begins, in_turn=True)
        begun.append(_begun(asked))
    return _summed([_finished(one) for one in begun])


def _begun(asked: LoadOrder) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "jobrunner.bench.load"]
    made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ)
    assert made.stdin is not None
    made.stdin.write(msgspec.msgpack.encode(asked))
    made.stdin.close()
    return made


def _finished(process: subprocess.Popen[bytes]) -> Measured:
    with process:
        assert process.stdout is not None
        return msgspec.msgpack.decode(process.stdout.read(), type=Measured)


def _summed(every: list[Measured]) -> Answers:
    delays = sorted(delay for one in every for delay in one.delays_ms)
    return Answers(
        max(one.seconds for one in every),
        len(delays),
        sum(len(one.refusals_ms) for one in every),
        0,
        at_share(delays, 0.5),
        at_share(delays, 0.99),
        sum(one.busy * one.seconds for one in every),
        max(one.busy for one in every),
    )
