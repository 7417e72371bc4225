"""Commands over a running service: a real process, asked over HTTP."""

import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.served import Served


def submitted(online: Command, *options: str) -> str:
    code, out, err = online("job", "submit", "howera", *options, "-o", "ids")
    assert code == 0, err
    return out.strip()


def test_a_job_from_submission_to_its_end(online: Command) -> None:
    job_id = submitted(online, "--label", "team=a", "--priority", "3", "--key", "k-1")
    assert submitted(online, "--key", "k-1") == job_id
    job = json.loads(online("job", "show", job_id, "-o", "json")[1])
    assert (job["status"], job["labels"], job["priority"]) == ("CREATED", {"team": "a"}, 3)
    assert job_id in online("job", "list", "--label", "team=a")[1]
    assert job_id not in online("job", "list", "--label", "team=b")[1]
    assert "CREATED" in online("job", "explain", job_id)[1]

    code, _, err = online("job", "run", job_id)
    assert code == 1
    assert err.startswith("ILLEGAL_TRANSITION")

    code, out, _ = online("job", "cancel", job_id, "--reason", "no need")
    assert code == 0
    assert "CANCELLED" in out
    code, _, err = online("job", "cancel", job_id)
    assert code == 1
    assert err.startswith("TERMINAL_STATE")
    rows = json.loads(online("job", "history", job_id, "-o", "json")[1])
    assert [(row["to_status"], row["reason"]) for row in rows] == [
        ("CREATED", None),
        ("CANCELLED", "no need"),
    ]


def test_ids_are_piped_from_one_command_to_the_next(
    online: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {submitted(online, "--label", "batch=7") for _ in range(3)}
    code, listed, _ = online("job", "list", "--label", "batch=7", "-o", "ids")
    assert code == 0
    assert set(listed.split()) == made
    monkeypatch.setattr(sys, "stdin", io.StringIO(listed))
    code, out, _ = online("job", "cancel", "-", "-o", "ids")
    assert (code, out) == (0, listed)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert online("job", "cancel", "-") == (0, "", "")


def test_lists_go_on_over_pages(online: Command) -> None:
    for _ in range(3):
        submitted(online, "--label", "page=1")
    newest = online("job", "list", "--label", "page=1", "--limit", "2", "-o", "ids")[1].split()
    oldest = online("job", "list", "--label", "page=1", "--limit", "200", "--oldest", "-o", "ids")[
        1
    ]
    assert len(newest) == 2
    assert newest == oldest.split()[::-1][:2]


def test_parameters_as_json_as_pairs_and_from_stdin(
    online: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"prompt": "a cat", "seed": 1}'))
    submit = ("job", "submit", "image-generation", "--params", "@-", "--param", "seed=7")
    code, out, err = online(*submit, "-o", "json")
    assert code == 0, err
    job = json.loads(out)
    assert (job["params"]["prompt"], job["params"]["seed"]) == ("a cat", 7)
    code, _, err = online("job", "submit", "image-generation", "--param", "promt=x")
    assert code == 1
    assert "INVALID_PARAMS" in err
    assert "promt" in err


def watched(served: Served, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "jobrunner", "job", "watch", *arguments, "-o", "json"],
        cwd=served.folder,
        env=served.environ,
        stdout=subprocess.PIPE,
        text=True,
        **more,
    )


def test_of_a_singleton_one_is_open(online: Command) -> None:
    words = ("job", "submit", "howera", "-o", "ids", "--singleton", "by-hand")
    first = online(*words)[1]
    assert online(*words, "--singleton-mode", "first") == (0, first, "")
    newer = online(*words, "--singleton-mode", "replace", "--quiet-s", "5")[1]
    assert newer != first
    assert (
        json.loads(online("job", "show", first.strip(), "-o", "json")[1])["status"] == "CANCELLED"
    )
    online("job", "cancel", newer.strip())
    code, _, err = online("job", "submit", "howera", "--quiet-s", "5")
    assert (code, "need the key of a --singleton" in err) == (2, True)


def test_watch_ends_when_the_job_does(online: Command, served: Served) -> None:
    later = ("--type", "tts", "--param", "text=hello", "--run-at", "2100-01-01T00:00:00Z")
    code, out, err = online("job", "submit", "cutx", *later, "-o", "ids")
    assert code == 0, err
    watching = watched(served, out.strip())
    try:
        assert online("job", "cancel", out.strip())[0] == 0
        said, _ = watching.communicate(timeout=120)
    finally:
        watching.kill()
    assert watching.returncode == 1
    assert json.loads(said)["ended_as"] == "canceled"


def test_watch_says_by_its_exit_code_how_jobs_stand(online: Command, served: Served) -> None:
    """Also of ids that come down a pipe, and of several: a failure counts most."""
    greeted = online("job", "submit", "hello", "--param", "name=Ada", "-o", "ids")[1].strip()
    waiting, canceled = submitted(online), submitted(online)
    assert online("job", "cancel", canceled)[0] == 0
    assert online("job", "watch", greeted)[0] == 0
    code, out, _ = online("job", "watch", waiting, "-o", "json")
    assert (code, json.loads(out)["status"]) == (5, "CREATED")
    assert online("job", "watch", canceled)[0] == 1
    assert online("job", "watch", waiting, greeted)[0] == 5
    assert online("job", "watch", waiting, canceled, greeted)[0] == 1
    assert online("job", "watch", "nothing-of-that-id")[0] == 4
    piped = watched(served, "-", stdin=subprocess.PIPE)
    piped.communicate(f"{greeted}\n{waiting}\n", timeout=120)
    assert piped.returncode == 5


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://127.0.0.1:1", "http://[::1", "//x"])
def test_an_address_that_is_none_is_wrong_usage(online: Command, url: str) -> None:
    code, out, err = online("job", "list", "--url", url)
    assert (code, out) == (2, "")
    assert repr(url) in err
    assert "\n" not in err.strip()


@pytest.mark.parametrize("command", [("job", "list"), ("config", "show"), ("--help",)])
def test_an_output_that_is_full_is_said_in_one_line(served: Served, command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        told = subprocess.run(
            [sys.executable, "-m", "jobrunner", *command],
            cwd=served.folder,
            env=served.environ,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert told.returncode == 1
    assert told.stderr == "the output cannot be written: No space left on device\n"


def test_who_asks_and_what_is_not_there_decide_the_exit_code(online: Command) -> None:
    job_id = submitted(online)
    user = online("token", "create", "eve")[1].strip()
    assert online("job", "show", job_id, "--token", "wrong")[0] == 3
    assert online("token", "list", "--token", user)[0] == 3
    assert online("job", "show", job_id, "--token", user)[0] == 4
    assert online("job", "show", "nope")[0] == 4
    assert online("token", "revoke", "nobody")[0] == 4
    assert online("credit", "grant", "nobody", "5")[0] == 4


def test_tokens_and_credits_through_the_admin_routes(online: Command) -> None:
    token = online("token", "create", "bob", "--credits", "2")[1].strip()
    assert "balance  2" in online("credit", "balance", "bob")[1]
    for _ in range(2):
        assert online("credit", "grant", "bob", "4", "--key", "gift-1") == (0, "", "")
    code, _, err = online("credit", "grant", "bob", "5", "--key", "gift-1")
    assert code == 1
    assert "4 credits before" in err
    rows = json.loads(online("credit", "history", "bob", "-o", "json")[1])
    assert [row["balance_after"] for row in rows] == [6, 2]
    assert online("job", "list", "--token", token)[0] == 0
    assert online("token", "revoke", "bob")[0] == 0
    assert online("job", "list", "--token", token)[0] == 3
    assert online("db", "check") == (0, "ok\n", "")
    code, out, _ = online("db", "info", "-o", "json")
    assert (code, "retention" in json.loads(out)) == (0, True)
    assert online("db", "prune", "--dry-run") == (0, "0 would go\n", "")
    assert online("db", "prune") == (0, "0 went\n", "")
    code, out, _ = online("db", "compact", "-o", "json")
    assert (code, json.loads(out)) == (0, {"done": True, "free_pages": 0})


def test_without_an_address_the_holder_of_the_lock_is_found(
    online: Command, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is held, so the service answers for it, where the settings say it listens."""
    monkeypatch.delenv("JOBRUNNER_URL")
    monkeypatch.setenv("JOBRUNNER_SERVER__PORT", served.url.rpartition(":")[2])
    assert online("token", "create", "dora")[0] == 0
    assert "dora" in online("token", "list")[1]


def test_the_openapi_document_is_printed(online: Command) -> None:
    document = json.loads(online("openapi")[1])
    assert document["openapi"] == "3.1.0"
    assert "/jobs" in document["paths"]


def test_a_reader_that_goes_away_is_no_traceback(served: Served) -> None:
    program = f"{sys.executable} -m jobrunner openapi | head -c 1"
    done = subprocess.run(
        ["bash", "-c", program],
        cwd=served.folder,
        env=served.environ | {"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("{", "")


def test_the_log_is_json_and_knows_no_secrets(online: Command, served: Served) -> None:
    """P22: what opens a door, and what a client wrote, stays out of the log."""
    token = online("token", "create", "carl")[1].strip()
    submit = ("job", "submit", "image-generation", "--param", "prompt=canary-prompt")
    assert online(*submit, "--token", token)[0] == 0
    assert online("job", "list", "--token", "canary-token")[0] == 3
    text = json.dumps(served.log())
    for secret in (token, served.token, "canary-prompt", "canary-token"):
        assert secret not in text
