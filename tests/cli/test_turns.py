"""``job watch`` says whose turn it is, and ``job events`` what happens, while it happens."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobrunner.cli.frame.options import Form
from jobrunner.cli.frame.turns import turn
from tests.cli.conftest import Command
from tests.cli.test_online import submitted
from tests.ports import free_port
from tests.served import Served, serving

RESTS: dict[str, Any] = {"kind": "waiting", "stuck": None, "needs_person": False}
RESTS |= {"allowed": {"commands": ["run", "cancel"]}}
RUNS = {"state": "drawing", "number": 2, "status": "running", "holder": "ann", "runs": "outside"}


@pytest.mark.parametrize(
    ("job", "why", "whose"),
    [
        ({"kind": "final"}, {}, "nobody's, it has ended"),
        ({"kind": "settled"}, {}, "nobody's, it has ended; a person may run or cancel"),
        ({"stuck": {"reason": "PARAMS_STALE"}}, {}, "an admin's: release it, it is stuck"),
        (
            {},
            {"paused": {"what": "job", "by": "bob", "reason": "tea"}},
            "a person's: resume the job, which bob paused: tea",
        ),
        (
            {},
            {"paused": {"what": "workflow", "by": "bob", "reason": None}},
            "an admin's: resume the workflow, which bob paused",
        ),
        ({}, {"attempt": RUNS}, "a worker's, outside: ann works on attempt 2 of drawing"),
        ({}, {"attempt": RUNS | {"runs": "here"}}, "the service's: it works on attempt 2"),
        (
            {},
            {"attempt": RUNS | {"status": "parked"}, "waits_for": "a callback for p-1"},
            "a provider's: a callback for p-1",
        ),
        (
            {"kind": "queued"},
            {"queue_position": 3, "queue_position_exact": True, "waits_for": "a free slot"},
            "the line's: place 3, waiting for a free slot",
        ),
        (
            {"kind": "active"},
            {
                "waits_for": "the end of its backoff",
                "timers": [
                    {"purpose": "deadline", "due_at": "2026-11-19T04:00:00.000Z"},
                    {"purpose": "backoff", "due_at": "2026-11-19T05:00:00.000Z"},
                ],
            },
            "a timer's: it is tried again at 2026-11-19 05:00:00Z",
        ),
        (
            {"kind": "active"},
            {"waits_for": "an outside worker to claim drawing", "attempt": {"status": "due"}},
            "a worker's, outside: to claim drawing",
        ),
        ({"needs_person": True}, {"waits_for": "a command"}, "a person's: run or cancel"),
        ({}, {"waits_for": "a command or callback"}, "somebody's, outside: a command or callback"),
    ],
)
def test_whose_turn_it_is(job: dict[str, Any], why: dict[str, Any], whose: str) -> None:
    told = turn(RESTS | job, {"waits_for": "something"} | why, Form(utc=True))
    assert told.startswith(whose)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service whose advertisements are made somewhere else."""
    folder = tmp_path_factory.mktemp("outside")
    bound = '[workflows.cutx.stages]\n"*" = "external"\n'
    (folder / "config.toml").write_text(bound)
    with serving(folder) as served:
        yield served


def watching(served: Served, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "jobrunner", "job", *words],
        cwd=served.folder,
        env=served.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_worker_s_turn_is_told_while_it_is(
    command: Command, outside: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(outside.folder)
    monkeypatch.setenv("JOBRUNNER_URL", outside.url)
    submit = ("job", "submit", "cutx", "--type", "tts", "--param", "text=hello", "-o", "ids")
    job_id = command(*submit)[1].strip()
    watched = watching(outside, "watch", job_id)
    try:
        assert watched.stderr is not None
        line = watched.stderr.readline()
        assert "a worker's, outside" in line
        assert line.startswith(job_id[:13])
        code, _, err = command("job", "cancel", job_id)
        assert code == 0, err
        out, err = watched.communicate(timeout=120)
    finally:
        watched.kill()
        watched.wait()
    assert "nobody's, it has ended" in err
    assert "nobody's, it has ended" in out


def test_a_person_s_and_a_timer_s_turn(online: Command) -> None:
    code, out, err = online("job", "watch", submitted(online), "-o", "json")
    assert code == 5
    assert json.loads(out)["turn"].startswith("a person's: ")
    assert "confirm-upload" in err
    assert online("job", "watch")[0] == 2
    assert online("job", "watch", "--all", "x")[0] == 2


def test_what_happens_to_a_job_is_told_to_its_end(online: Command, served: Served) -> None:
    job_id = submitted(online)
    followed = watching(served, "events", job_id, "-o", "json")
    try:
        assert followed.stdout is not None
        first = json.loads(followed.stdout.readline())
        assert (first["event"], first["id"]) == ("progress", job_id)
        code, _, err = online("job", "cancel", job_id, "--reason", "enough")
        assert code == 0, err
        out, err = followed.communicate(timeout=120)
    finally:
        followed.kill()
        followed.wait()
    assert followed.returncode == 0, err
    told = [json.loads(line) for line in out.splitlines()]
    assert [one["event"] for one in told] == ["transition", "settled"]
    assert told[0]["hops"][0]["reason"] == "enough"


def test_what_happens_to_all_jobs_is_told_for_as_long_as_one_likes(
    online: Command, served: Served
) -> None:
    mine = ("--user", "admin", "--workflow", "howera", "--count", "2")
    followed = watching(served, "events", *mine)
    told: list[str] = []
    try:
        assert followed.stdout is not None
        while followed.poll() is None:  # until it listens, nobody tells it of what was before
            online("job", "cancel", submitted(online))
        told = followed.communicate(timeout=120)[0].splitlines()
    finally:
        followed.kill()
        followed.wait()
    assert len(told) == 2
    assert all(("howera" in line and " → " in line) or "canceled" in line for line in told)
    assert online("job", "events", "01a1f22d-61f8", "--workflow", "howera")[0] == 2


def test_whoever_follows_goes_on_when_the_service_starts_again(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    port = str(free_port())
    with serving(tmp_path, JOBRUNNER_SERVER__PORT=port) as first:
        monkeypatch.setenv("JOBRUNNER_URL", first.url)
        code, out, err = command("job", "submit", "howera", "-o", "ids")
        assert code == 0, err
        job_id = out.strip()
        followed = watching(first, "events", job_id, "-o", "json")
        assert followed.stdout is not None
        assert json.loads(followed.stdout.readline())["id"] == job_id
    (tmp_path / "stderr").unlink()  # the log of the first says that it is ready
    try:
        with serving(tmp_path, JOBRUNNER_SERVER__PORT=port):
            code, _, err = command("job", "cancel", job_id)
            assert code == 0, err
            out, _ = followed.communicate(timeout=120)
    finally:
        followed.kill()
        followed.wait()
    assert json.loads(out.splitlines()[-1])["status"] == "CANCELLED"
