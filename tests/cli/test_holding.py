"""Pausing, doing again, and bulks from the command line, over a running service."""

import json

from tests.cli.conftest import Command
from tests.cli.test_online import submitted


def test_a_job_is_paused_and_resumed(online: Command) -> None:
    job_id = submitted(online, "--label", "hold=1")
    assert online("job", "pause", job_id, "--reason", "tea")[0] == 0
    listed = online("job", "list", "--label", "hold=1", "--paused", "-o", "ids")[1]
    assert listed.split() == [job_id]
    assert "tea" in online("job", "explain", job_id)[1]
    assert online("job", "resume", job_id)[0] == 0
    assert online("job", "list", "--label", "hold=1", "--paused", "-o", "ids")[1] == ""


def test_a_workflow_is_paused_and_resumed(online: Command) -> None:
    code, out, err = online("workflow", "pause", "howera", "--reason", "model")
    assert code == 0, err
    assert "model" in out
    assert online("workflow", "resume", "howera")[0] == 0
    assert online("workflow", "pause", "nothing")[0] == 4


def test_a_job_is_done_again(online: Command) -> None:
    job_id = submitted(online)
    assert online("job", "rerun", job_id)[0] == 1
    online("job", "cancel", job_id)
    code, out, err = online("job", "rerun", job_id, "--reason", "again", "-o", "json")
    assert code == 0, err
    assert json.loads(out)["forked_from"] == job_id
    code, _, err = online("job", "rerun", job_id, "--from", "NOWHERE")
    assert code == 1
    assert "NOWHERE" in err


def test_many_at_once(online: Command) -> None:
    made = sorted(submitted(online, "--label", "bulk=1") for _ in range(3))
    chosen = ("--workflow", "howera", "--label", "bulk=1")
    dry = json.loads(online("job", "bulk", "cancel", *chosen, "--dry-run", "-o", "json")[1])
    assert dry["outcomes"] == {"done": 3}
    ids = online("job", "bulk", "cancel", *chosen, "--dry-run", "-o", "ids")[1].split()
    assert sorted(ids) == made
    told = json.loads(online("job", "bulk", "cancel", *chosen, "--wait", "-o", "json")[1])
    assert (told["status"], told["done"]) == ("done", 3)
    code, out, _ = online("job", "bulk", "cancel", "--ids", made[0], "-o", "json")
    assert code == 1
    assert json.loads(out)["failures"][0]["error_code"] == "TERMINAL_STATE"
    assert online("job", "bulk", "cancel")[0] == 2
    assert online("job", "bulk", "cancel", "--ids", made[0], *chosen)[0] == 2
