"""Each work on the real service, as small as it can be; and wishes that cannot be met."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from jobrunner import cli
from jobrunner.bench import clients, fairness, growth, parking, peer, running, suite
from jobrunner.bench.clients import Answers, once_each
from jobrunner.bench.measuring import Sample, Values, Wanted, numbered, submission
from jobrunner.bench.servers import DEFAULT, service
from jobrunner.bench.workloads import WORKFLOWS, body
from jobrunner.errors import Misconfigured

SMALL = Wanted(Path(), rounds=1, seconds=1, clients=(4,), batch=40, parked=40, waiting=100,
               ended=300, telling=20)  # fmt: skip


def told(work: str, disk: Path, **wishes: object) -> dict[str, Values]:
    """The figures of one round, by who had it."""
    plan = msgspec.structs.replace(SMALL, disk=disk, **wishes)
    return {f"{one.work}, {one.who}": one.values for one in suite.WORKS[work](plan)}


def test_every_work_is_told_in_the_essay() -> None:
    assert suite.__doc__ is not None
    lines = [line.split() for line in suite.__doc__.splitlines() if line.startswith("    ")]
    named = [line[0] for line in lines if line]
    assert named == list(suite.WORKS)


def test_jobs_run_to_their_end_in_one_request(tmp_path: Path) -> None:
    found = told("W2", tmp_path)
    assert set(found) == {"W2, default limits", "W2, large limits"}
    for figures in found.values():
        assert figures["per_s"] > 0
        assert (figures["refused"], figures["broken"], figures["early"]) == (0, 0, 0)


def test_jobs_have_a_key_a_price_and_a_ledger(tmp_path: Path) -> None:
    with service(tmp_path, DEFAULT) as server:
        twice = [numbered(submission(SMALL, server.token), 1)] * 2
        assert once_each(server.url, twice, 1).good == 2
        server.wait_until("steps", "done", 1)
        (job,) = msgspec.json.decode(server.ask("GET", "/jobs")[1])["jobs"]
        assert job["credits"]["state"] == "captured"
        plain = submission(msgspec.structs.replace(SMALL, plain=True), server.token)
        assert once_each(server.url, [plain] * 2, 1).good == 2
        server.wait_until("steps", "done", 3)


@pytest.mark.long
def test_all_are_counted_when_the_last_has_ended(tmp_path: Path) -> None:
    for figures in told("W2t", tmp_path).values():
        assert figures["per_s"] > 0
        assert figures["refused"] == 0


def test_parked_jobs_are_ended_by_their_webhooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "BELLS", 20)
    for figures in told("W3", tmp_path).values():
        assert figures["per_s"] > 0


def test_parked_jobs_are_there_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "SETTLES_S", 0.1)
    (figures,) = told("W4", tmp_path).values()
    assert figures["first_job_s"] >= figures["ready_s"] > 0


def test_a_service_with_many_that_wait_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "PATTERNS", 5)
    monkeypatch.setattr(parking, "SETTLES_S", 0.1)
    (figures,) = told("W4s", tmp_path).values()
    assert figures["ready_s"] > 0


@pytest.mark.long
def test_starts_and_lists_beside_jobs_that_have_ended(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(SMALL, disk=tmp_path)
    with growth._ended(plan, 300) as server:
        assert server.jobs("steps", "done") == 300 + growth.PATTERNS
        found = {one.work: one.values for one in growth._measured(plan, "many", server, 0)}
    assert found["W5 start"]["ready_s"] > 0
    assert found["W5 history"]["p50_ms"] > 0
    assert found["W5 W1"]["per_s"] > found["W5 W1"]["refused"] == 0


@pytest.mark.long
def test_an_empty_file_and_a_grown_one_in_turns(tmp_path: Path) -> None:
    found = [(one.work, one.who) for one in suite.WORKS["W5"](
        msgspec.structs.replace(SMALL, disk=tmp_path, rounds=2))]  # fmt: skip
    starts = [who for work, who in found if work == "W5 start"]
    assert starts == ["empty file", "300 ended"] * 2


def test_everything_that_was_found_is_told(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(SMALL, disk=tmp_path)
    seen: list[Sample] = []
    result = suite.measure(plan, ["W2t"], beside_peer=False, tell=seen.append)
    assert [one.who for one in seen] == ["default limits", "large limits"]
    text = "\n".join(result.text())
    assert "a flush takes" in text
    assert "W2t   default limits" in text
    assert list(tmp_path.iterdir()) == []


def test_the_operators_own_settings_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBRUNNER_STORE__PATH", str(tmp_path / "own.db"))
    with service(tmp_path, DEFAULT) as server:
        status, answer = server.ask("GET", "/workflows")
        names = {one["name"] for one in msgspec.json.decode(answer)["workflows"]}
        assert (status, names) == (200, set(WORKFLOWS))
        assert server.ask("POST", "/jobs", body("steps"))[0] == 201
    assert not (tmp_path / "own.db").exists()


def test_a_work_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "--only", "W9"]) == cli.USAGE
    assert "W9" in capsys.readouterr().err


def test_a_peer_that_is_not_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["bench", "--peer", "restate"]) == cli.FAILED
    assert "npm install @restatedev/restate-server" in capsys.readouterr().err


@pytest.mark.parametrize(("failing", "stopped"), [(2, 1), (3, 0)])
def test_a_peer_whose_port_is_taken_is_started_again(
    failing: int, stopped: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, ends = list[Path](), list[Path]()

    class Shy:
        def __init__(self, folder: Path, modules: Path) -> None:
            self.folder = folder
            tried.append(folder)
            if len(tried) <= failing:
                raise Misconfigured("the port is taken")

        def stop(self) -> None:
            assert self.folder.is_dir(), "its files are there for as long as it is"
            ends.append(self.folder)

    monkeypatch.setattr(peer, "Restate", Shy)
    monkeypatch.setattr(peer, "found", lambda: tmp_path)
    plan = msgspec.structs.replace(SMALL, disk=tmp_path)
    starts = pytest.raises(Misconfigured, match="taken") if failing == 3 else nullcontext()
    with starts, peer._restate(plan):
        pass
    assert (len(set(tried)), ends) == (3, tried[3 - stopped :])
    assert list(tmp_path.iterdir()) == []


def test_a_flame_graph_without_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert cli.run(["bench", "--flame", str(tmp_path / "flame.svg")]) == cli.FAILED
    assert "pip install py-spy" in capsys.readouterr().err


def test_a_flame_graph_with_the_program_beside_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an environment that nobody has activated."""
    (program := tmp_path / "py-spy").touch(mode=0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert suite.profiler() == str(program)


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM]
)
def test_an_interrupt_leaves_what_is_known_and_no_service(number: int, tmp_path: Path) -> None:
    def enough(sample: Sample) -> None:
        seen.append(sample)
        signal.raise_signal(number)

    before = signal.getsignal(number)

    seen: list[Sample] = []
    plan = msgspec.structs.replace(SMALL, disk=tmp_path, rounds=9)
    result = suite.measure(plan, ["W2t"], beside_peer=False, tell=enough)
    assert len(seen) == 1
    assert [line.who for line in result.lines] == ["default limits"]
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(number) == before


def test_what_was_measured_before_something_did_not_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submitting(plan: Wanted) -> Iterator[Sample]:
        yield Sample("W1", "R", 4, {"per_s": 7.0})
        raise Misconfigured("the port is taken")

    monkeypatch.setitem(suite.WORKS, "W1", submitting)
    plan = msgspec.structs.replace(SMALL, disk=tmp_path, rounds=2)
    result = suite.measure(plan, ["W1"], beside_peer=False, tell=lambda sample: None)
    assert [(line.who, line.figures["per_s"].median) for line in result.lines] == [("R", 7.0)]
    told = "a round of W1 ended before its time: the port is taken"
    assert [line for line in result.text() if told in line] == [f"doubt: {told}"] * 2


def test_a_service_that_does_not_start_is_told_and_ended(tmp_path: Path) -> None:
    with (
        pytest.raises(Misconfigured, match=r"did not start.*active_jobs"),
        service(tmp_path, {"active_jobs": -1}),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_calm_ones_run_new_jobs_in_a_service_that_has_seen_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the one whose every job they were alone with: there they had all of it lately."""
    asked: list[tuple[str, int]] = []

    def one_client(
        url: str, requests: Sequence[bytes], seconds: float, first: int, rest_s: float
    ) -> Answers:
        asked.append((url, len(set(requests))))
        return clients.one_client(url, requests, 0.2, first, 0)

    monkeypatch.setattr(fairness, "one_client", one_client)
    monkeypatch.setattr(fairness, "LOOK_S", 0.2)
    monkeypatch.setattr(fairness, "AHEAD_S", 0.1)
    assert all(figures["per_s"] > 0 for figures in told("flood", tmp_path).values())
    assert [users for _, users in asked] == [fairness.CALM_USERS] * 5
    assert len({url for url, _ in asked}) == 5
