"""Jobs that wait: W4, what they cost, how soon the service is back with them, and how punctual
their moments are."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import anyio
import msgspec

from jobrunner.bench.clients import once_each
from jobrunner.bench.cost import resident_kib
from jobrunner.bench.load import request
from jobrunner.bench.measuring import Sample, Values, Wanted
from jobrunner.bench.running import ASKING, park
from jobrunner.bench.servers import LARGE, Service, service
from jobrunner.bench.stored import Growth, grow
from jobrunner.bench.workloads import body
from jobrunner.ports import SystemClock

PATTERNS = 100
SETTLES_S = 2.0
DAYS = 10
DUE_PER_S = 1_000
DUE_IN_S = 20.0
LAG = "jobrunner_timer_lag_seconds"


def waiting(plan: Wanted) -> Iterator[Sample]:
    """W4: so many parked jobs that the service parked itself, then kill -9."""
    with service(plan.disk, LARGE) as server:
        before_kib = resident_kib(*server.pids)
        parked_per_s = park(server, plan.parked)
        time.sleep(SETTLES_S)
        each = (resident_kib(*server.pids) - before_kib) / plan.parked
        found = {"parked_per_s": parked_per_s, "kib_each": each, "file_mib": server.file_mib()}
        server.kill()
        yield Sample("W4", "parked", plan.parked, found | _again(server))


def waiting_for_long(plan: Wanted) -> Iterator[Sample]:
    """W4s: as many more, out of a file that was made so: half of them for a moment, half for a
    webhook."""
    with service(plan.disk, LARGE) as server:
        park(server, PATTERNS)
        _timed(server, PATTERNS)
        server.stop()
        _grown(server, Growth(plan.waiting, waiting=True, due_from=_far_off()))
        yield Sample("W4s", "stored", plan.waiting, _again(server))


def punctual(plan: Wanted) -> Iterator[Sample]:
    """timers: so many are due each second; how late are they?"""
    with service(plan.disk, LARGE, ("steps",)) as server:
        _timed(server, PATTERNS)
        server.stop()
        due = int(DUE_PER_S * max(plan.seconds, 10))
        first = SystemClock().now() + int(DUE_IN_S * 1000)
        _grown(server, Growth(due, waiting=True, due_from=first, per_s=DUE_PER_S))
        server.start()
        while server.figure(f"{LAG}_count") < due:
            time.sleep(SETTLES_S)
        late_ms = 1000 * server.figure(f"{LAG}_sum") / due
        found = {"late_p99_ms": 1000 * server.share(LAG, 0.99), "late_mean_ms": late_ms}
        yield Sample("timers", f"{DUE_PER_S} a second", due, found)


def _again(server: Service) -> Values:
    """Start a service that has been ended, and let it take a job."""
    began = time.perf_counter()
    ready_s = server.start()
    status, answer = server.ask("POST", "/jobs", body("steps"))
    first_s = time.perf_counter() - began
    assert status == 201, answer
    time.sleep(SETTLES_S)
    found = {"ready_s": ready_s, "first_job_s": first_s}
    return found | {"mib_after": resident_kib(*server.pids) / 1024}


def _timed(server: Service, jobs: int) -> None:
    """Let so many jobs wait for a moment that is far off."""
    moment = datetime.fromtimestamp(_far_off() / 1000, UTC)
    said = msgspec.json.decode(body("steps")) | {"run_at": moment.isoformat()}
    text = msgspec.json.encode(said)
    made = [request("POST", "/jobs", server.token, text)] * jobs
    assert once_each(server.url, made, ASKING).good == jobs


def _grown(server: Service, growth: Growth) -> None:
    anyio.run(grow, str(server.path), growth)


def _far_off() -> int:
    return SystemClock().now() + DAYS * 86_400_000
