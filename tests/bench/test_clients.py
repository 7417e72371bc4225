"""How wrk is told what to ask, what it tells, and our own processes where it is not installed."""

import os
import shutil
from pathlib import Path

import pytest

from jobrunner.bench import clients
from jobrunner.bench.cost import machine_busy_s, resident_kib, used
from jobrunner.bench.load import MARK, request
from jobrunner.bench.machine import file_system, flush
from jobrunner.bench.servers import below, figure, reference
from jobrunner.bench.workloads import body

JOB = request("POST", "/jobs", "any", body("steps", order_id=f"order-{MARK.decode()}"))
PAGE = """\
jobrunner_jobs{status="done",workflow="steps"} 12.0
jobrunner_attempts_parked 3.0
lag_bucket{le="0.01"} 90.0
lag_bucket{le="0.1"} 99.0
lag_bucket{le="+Inf"} 100.0
"""


def test_a_script_has_the_requests_and_where_their_number_stands() -> None:
    told = clients.scripted([b'a "b"\r\n' + MARK + b"\\"], 5)
    assert r'{"a \"b\"\r\n"}, {"\\"}, 5' in told
    assert "'%012d'" in told
    assert "'%012d'" not in clients.scripted([b"a"], 5)


def test_the_last_line_of_wrk() -> None:
    line = '{"all":110,"us":2000000,"p50":1500,"p99":20000,"refused":10,"broken":1}'
    told = clients.read_told(f"a warning\n{line}", used_s=1.0)
    assert (told.good, told.refused, told.broken) == (100, 10, 1)
    assert (told.per_s, told.p50_ms, told.p99_ms, told.busy) == (50, 1.5, 20, 0.5)


def test_figures_out_of_a_page() -> None:
    assert figure(PAGE, "jobrunner_jobs", 'status="done",workflow="steps"') == 12
    assert figure(PAGE, "jobrunner_attempts_parked") == 3
    assert figure(PAGE, "jobrunner_attempts") == 0
    assert [below(PAGE, "lag", share) for share in (0.5, 0.99, 1)] == [0.01, 0.1, float("inf")]
    assert below(PAGE, "none", 0.5) == 0


@pytest.mark.parametrize("kind", ["bare", "R"])
def test_our_own_processes_ask_the_least_of_servers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``R`` refuses a second row of one name, so each answer was a row."""
    monkeypatch.setattr(shutil, "which", lambda program: None)
    with reference(tmp_path, kind) as server:
        before = server.used()
        told = clients.again_and_again(server.url, [JOB], clients=4, seconds=1)
        assert told.good > 0
        assert (told.refused, told.broken) == (0, 0)
        assert 0 < told.p50_ms <= told.p99_ms
        assert told.used_s > 0
        if Path("/proc/stat").exists():
            assert 0 < server.used().since(before).loop_s <= server.used().all_s


@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
def test_wrk_asks_the_least_of_servers(tmp_path: Path) -> None:
    with reference(tmp_path, "R") as server:
        told = clients.again_and_again(server.url, [JOB], clients=4, seconds=1)
    assert told.good > 0
    assert (told.refused, told.broken) == (0, 0)


def test_each_once(tmp_path: Path) -> None:
    with reference(tmp_path, "R") as server:
        told = clients.once_each(server.url, [JOB] * 30, clients=8)
    assert told.good == 30


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="there is no /proc")
def test_the_cost_of_a_process() -> None:
    mine, everybody = used(os.getpid()), machine_busy_s()
    sum(range(5_000_000))
    assert used(os.getpid()).all_s > mine.all_s
    assert machine_busy_s() > everybody
    assert resident_kib(os.getpid()) > 1000
    assert used(2**22 + 1) == (0, 0)


def test_a_flush_and_the_file_system_of_a_folder(tmp_path: Path) -> None:
    told = flush(tmp_path)
    assert 0 < told.p50_ms <= told.p99_ms
    assert list(tmp_path.iterdir()) == []
    assert file_system(tmp_path)
