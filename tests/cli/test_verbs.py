"""What operators and owners look at and do, beside the lives of jobs."""

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Command
from tests.cli.test_online import submitted


def listed(online: Command, *words: str) -> list[dict[str, Any]]:
    code, out, err = online(*words, "-o", "json")
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


def done(online: Command) -> str:
    """A greeting that has ended."""
    job_id = online("job", "submit", "hello", "--param", "name=Ada", "-o", "ids")[1].strip()
    assert online("job", "watch", job_id)[0] == 0
    return job_id


def test_attempts_files_and_deliveries_of_a_job(online: Command) -> None:
    job_id = done(online)
    (attempt,) = listed(online, "job", "attempts", job_id)
    assert (attempt["attempt"], attempt["outcome"]) == (1, "done")
    assert "STARTED_AT" in online("job", "attempts", job_id)[1]
    submit = ("job", "submit", "image-generation", "--param", "prompt=a hill", "-o", "ids")
    drawn = online(*submit)[1].strip()
    assert online("job", "watch", drawn)[0] == 0
    (file,) = listed(online, "job", "assets", drawn)
    assert file["asset_type"] == "image"
    assert listed(online, "job", "deliveries", job_id) == []


def test_a_job_is_forgotten_and_a_file_too(online: Command, tmp_path: Path) -> None:
    job_id = done(online)
    code, out, err = online("job", "delete", job_id, "-o", "ids")
    assert (code, out.strip()) == (0, job_id), err
    assert online("job", "show", job_id)[0] == 4
    code, _, err = online("job", "delete", submitted(online))
    assert (code, err.split(":")[0]) == (1, "JOB_NOT_SETTLED")
    (tmp_path / "a.txt").write_text("a")
    asset_id = online("asset", "put", str(tmp_path / "a.txt"), "-o", "ids")[1].strip()
    assert online("asset", "delete", asset_id)[0] == 0
    assert online("asset", "show", asset_id)[0] == 4


def test_one_edge_is_taken_by_hand(online: Command) -> None:
    job_id = submitted(online)
    code, out, err = online("job", "move", job_id, "CANCELLED", "--reason", "by hand", "-o", "json")
    assert (code, json.loads(out or "{}").get("status")) == (0, "CANCELLED"), err
    assert online("job", "move", job_id, "CREATED")[0] == 1
    code, _, err = online("job", "stop", submitted(online))
    assert (code, err.split(":")[0]) == (1, "ILLEGAL_TRANSITION")
    assert online("job", "release", submitted(online))[0] == 0
    user = online("token", "create", "no-admin")[1].strip()
    assert online("job", "release", submitted(online), "--token", user)[0] == 3


def test_artifacts_are_listed_and_fetched(online: Command, tmp_path: Path) -> None:
    job_id = submitted(online)
    uri = "https://example.org/film.mp4"
    assert online("job", "tell", job_id, "confirm-upload", "--field", f"video_uri={uri}")[0] == 0
    (row,) = listed(online, "artifact", "list", job_id)
    assert row == {"name": "video_uri", "value": uri}
    assert [one["version"] for one in listed(online, "artifact", "list", job_id, "video_uri")] == [
        1
    ]
    code, out, _ = online("artifact", "get", job_id, "video_uri", "-o", "json")
    assert (code, json.loads(out)["value"]) == (0, uri)
    into = tmp_path / "uri.txt"
    assert online("artifact", "get", job_id, "video_uri", str(into), "--version", "1")[0] == 0
    assert into.read_text() == f"{uri}\n"
    assert online("artifact", "get", job_id, "video_uri", str(into))[0] == 1
    assert online("artifact", "get", job_id, "nothing")[0] == 4
    code, _, err = online("artifact", "put", job_id, "video_uri", "--value", "x")
    assert (code, err.split(":")[0]) == (3, "FORBIDDEN")
    assert online("artifact", "put", job_id, "video_uri")[0] == 2


def test_an_artifact_that_is_a_file_is_fetched_as_one(online: Command, tmp_path: Path) -> None:
    job_id = submitted(online)
    (tmp_path / "film.mp4").write_bytes(b"film" * 1000)
    assert online("job", "upload", job_id, str(tmp_path / "film.mp4"))[0] == 0
    assert online("job", "tell", job_id, "confirm-upload")[0] == 0
    into = tmp_path / "back.mp4"
    code, _, err = online("artifact", "get", job_id, "video_uri", str(into))
    assert code == 0, err
    assert into.read_bytes() == b"film" * 1000


def test_stages_are_listed_and_held_back(online: Command) -> None:
    known = {row["name"]: row for row in listed(online, "stage", "list")}
    name = next(name for name, row in known.items() if "hello" in row["used_by"])
    assert online("stage", "pause", name, "--reason", "tea")[0] == 0
    assert online("workflow", "pause", "howera")[0] == 0
    held = {row["name"]: row for row in listed(online, "stage", "list")}
    assert (held[name]["paused"], held[name]["reason"]) == (True, "tea")
    assert (held["howera"]["scope"], held["howera"]["paused"]) == ("workflow", True)
    for what in (("stage", "resume", name), ("workflow", "resume", "howera")):
        assert online(*what)[0] == 0
    assert not any(row["paused"] for row in listed(online, "stage", "list"))
    assert online("stage", "pause", "nothing")[0] == 4


def test_who_did_what_and_what_was_given_up(online: Command) -> None:
    assert online("token", "create", "seen-in-audit")[0] == 0
    rows = listed(online, "audit", "list", "--since", "1h")
    assert any("seen-in-audit" in json.dumps(row) for row in rows)
    assert listed(online, "audit", "list", "--since", "2100-01-01") == []
    assert len(listed(online, "audit", "list", "--limit", "1")) == 1
    assert listed(online, "dead-letter", "list") == []


def test_an_order_for_many_is_looked_at_and_stopped(online: Command) -> None:
    submitted(online, "--label", "order=1")
    chosen = ("--workflow", "howera", "--label", "order=1")
    told = json.loads(online("job", "bulk", "cancel", *chosen, "--wait", "-o", "json")[1])
    code, out, err = online("bulk", "show", told["id"], "-o", "json")
    assert (code, json.loads(out)["done"]) == (0, 1), err
    assert online("bulk", "stop", told["id"])[0] == 0
    assert online("bulk", "show", "nothing")[0] == 4


def test_what_own_receivers_verify_with(online: Command) -> None:
    token = online("token", "create", "listener")[1].strip()
    code, out, err = online("notify", "own", "--token", token, "-o", "ids")
    assert code == 0, err
    assert out == online("notify", "secret", "--user", "listener")[1]
