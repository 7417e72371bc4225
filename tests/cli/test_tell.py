"""``job tell``: every command that a workflow declares, with the fields that it declares."""

import io
import json
import sys
from pathlib import Path

import pytest

from jobrunner.cli.commands import EXAMPLES
from tests.cli.conftest import Command
from tests.cli.test_online import submitted


def drawn(online: Command) -> str:
    submit = ("job", "submit", "image-generation", "--param", "prompt=a tree", "-o", "ids")
    code, out, err = online(*submit)
    assert code == 0, err
    return out.strip()


def test_what_a_job_takes_now_is_listed_with_its_fields(online: Command) -> None:
    job_id = submitted(online)
    code, out, err = online("job", "tell", job_id)
    assert code == 0, err
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert {"confirm-upload", "cancel", "fail"} <= lines.keys()
    assert "video_uri (text, optional)" in lines["confirm-upload"]
    assert "failure_code (text" in lines["fail"]
    assert "failed_stage (" in lines["fail"]
    assert " or " in lines["fail"].partition("failed_stage (")[2].partition(")")[0]
    assert "export" not in lines
    assert "cancel" in online("job", "tell", job_id, "-o", "ids")[1].split()


def test_a_field_is_what_its_declaration_says(online: Command) -> None:
    """A text stays as it was typed, though it reads like JSON."""
    job_id = drawn(online)
    code, _, err = online("job", "tell", job_id, "annotate", "--field", 'note="17"', "-o", "json")
    assert code == 0, err
    (noted,) = [
        row
        for row in json.loads(online("audit", "list", "--since", "1h", "-o", "json")[1])
        if row["job_id"] == job_id and "17" in json.dumps(row["fields"])
    ]
    assert noted["fields"]["note"] == '"17"'
    code, _, err = online("job", "tell", job_id, "annotate", "--field", "nota=17")
    assert code == 2
    assert "note (text)" in err


def test_fields_come_from_a_file_and_from_stdin(
    online: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fields.json"
    file.write_text(
        '{"failure_code": "GIVEN_UP", "failure_message": "old", "failed_stage": "TRANSCRIBING"}'
    )
    tell = ("job", "tell", submitted(online), "fail", "--file", str(file))
    code, out, err = online(*tell, "--field", "failure_message=new", "-o", "json")
    assert code == 0, err
    job = json.loads(out)
    assert (job["failure_code"], job["failure_message"]) == ("GIVEN_UP", "new")
    monkeypatch.setattr(sys, "stdin", io.StringIO("[1]"))
    code, _, err = online("job", "tell", submitted(online), "fail", "--file", "-")
    assert (code, "JSON object" in err) == (2, True)


def test_a_wrong_command_names_those_that_are_possible_now(online: Command) -> None:
    """Neither a word that is none nor one of the service's own routes gets through."""
    job_id = submitted(online)
    for wrong in ("cancle", "claim", "progress", "pause"):
        code, _, err = online("job", "tell", job_id, wrong)
        assert code == 4
        assert "howera in CREATED takes of whoever asks: " in err
        assert "confirm-upload" in err
    code, _, err = online("job", "tell", job_id, "export", "--field", "format=PDF")
    assert code == 1
    assert err.startswith("ILLEGAL_TRANSITION")
    assert "howera in CREATED takes of whoever asks: " in err


def test_only_the_version_that_was_seen_is_told(online: Command) -> None:
    job_id = submitted(online)
    code, _, err = online("job", "tell", job_id, "cancel", "--if-version", "7")
    assert (code, err.split(":")[0]) == (1, "JOB_VERSION_CONFLICT")
    code, out, _ = online("job", "tell", job_id[:30], "cancel", "--if-version", "1", "-o", "json")
    assert (code, json.loads(out)["status"]) == (0, "CANCELLED")


def test_every_command_of_jobs_shows_how_it_is_typed() -> None:
    assert all("jobrunner job " in shown for shown in EXAMPLES.values())
