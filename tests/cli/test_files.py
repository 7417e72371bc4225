"""Files by the command line: there, back, and over a break."""

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.cli.conftest import Command
from tests.served import Served, serving


def test_a_file_there_and_back(online: Command, tmp_path: Path) -> None:
    file = tmp_path / "sales of may.csv"
    file.write_bytes(bytes(range(256)) * 5000)
    code, out, err = online("asset", "put", str(file), "-o", "ids")
    assert code == 0, err
    asset_id = out.strip()
    shown = json.loads(online("asset", "show", asset_id, "-o", "json")[1])
    assert shown["storage_path"].endswith("/sales_of_may.csv")
    assert asset_id in online("asset", "list", "-o", "ids")[1]
    back = tmp_path / "back.csv"
    (tmp_path / "back.csv.part").write_bytes(file.read_bytes()[:1000])
    code, _, err = online("asset", "get", asset_id, str(back))
    assert code == 0, err
    assert back.read_bytes() == file.read_bytes()
    code, _, err = online("asset", "get", asset_id, str(back))
    assert (code, err.split(":")[0]) == (1, "ALREADY_EXISTS")
    (tmp_path / "bad.csv.part").write_bytes(b"something else")
    code, _, err = online("asset", "get", asset_id, str(tmp_path / "bad.csv"))
    assert (code, err.split(":")[0]) == (1, "DIGEST_MISMATCH")
    assert online("asset", "show", "nothing")[0] == 4


def test_a_file_to_a_service_that_others_reach_under_a_path(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From this machine there is no such path, whatever the links that it hands out begin with."""
    settings = '[server]\npublic_url = "https://jobs.example.com/runner"\n'
    (tmp_path / "config.toml").write_text(settings)
    (tmp_path / "table.csv").write_bytes(b"a,b\n")
    with serving(tmp_path) as served:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("JOBRUNNER_URL", served.url)
        code, out, err = command("asset", "put", "table.csv", "-o", "ids")
        assert code == 0, err
        code, _, err = command("asset", "get", out.strip(), "back.csv")
        assert code == 0, err
        assert Path("back.csv").read_bytes() == b"a,b\n"


def test_a_video_for_a_job(online: Command, tmp_path: Path) -> None:
    """H4: its first byte leads to UPLOADING."""
    code, out, err = online("job", "submit", "howera", "-o", "ids")
    assert code == 0, err
    job_id = out.strip()
    film = tmp_path / "film.mp4"
    film.write_bytes(b"film" * 100_000)
    code, out, err = online("job", "upload", job_id, str(film), "-o", "json")
    assert code == 0, err
    assert json.loads(out)["file_size"] == 400_000
    job = json.loads(online("job", "show", job_id, "-o", "json")[1])
    assert job["status"] == "UPLOADING"
    code, _, err = online("job", "upload", job_id, str(film), "--as", "audio")
    assert (code, err.split(":")[0]) == (4, "UNKNOWN_UPLOAD")
    code, _, err = online("job", "upload", job_id, str(tmp_path / "missing"))
    assert (code, err.split(":")[0]) == (1, "VALIDATION_ERROR")


def test_a_file_whose_size_nobody_noted_is_fetched_whole_or_refused(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker names a file by its address alone. Nothing may pass for it: not what an earlier try
    left behind, and not emptiness."""
    outside = '[workflows.asset-pattern.stages]\n"*" = "external"\n'
    (tmp_path / "config.toml").write_text(outside)
    with serving(tmp_path) as served:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("JOBRUNNER_URL", served.url)
        entry = _reported(command, served)
        assert entry["file_size"] is None
        code, out, err = command("asset", "get", entry["id"], "picture.png")
        assert (code, out, err.split(":")[0]) == (4, "", "ASSET_GONE")
        assert sorted(path.name for path in tmp_path.glob("picture*")) == []

        place = tmp_path / "data" / "assets" / entry["storage_path"]
        place.parent.mkdir(parents=True)
        place.write_bytes(bytes(range(256)) * 4000)
        Path("picture.png.part").write_bytes(b"of another day")
        code, _, err = command("asset", "get", entry["id"], "picture.png")
        assert code == 0, err
        assert Path("picture.png").read_bytes() == place.read_bytes()


def _reported(command: Command, served: Served) -> Any:
    """An asset of a job whose worker gave no size for it."""
    job = ("job", "submit", "asset-pattern", "--type", "generation", "-o", "ids")
    code, out, err = command(*job, "--params", '{"prompt": "a"}')
    assert code == 0, err
    path = f"{served.url}/jobs/{out.strip()}"
    token = command("token", "create", "w", "--role", "workflow")[1].strip()
    asset = {"asset_type": "image", "url": "https://files.invalid/picture.png"}
    for verb, body in (("claim", {}), ("transitions", {"to": "completed", "assets": [asset]})):
        request = Request(f"{path}/{verb}", json.dumps(body).encode(), method="POST")
        request.add_header("Authorization", f"Bearer {token}")
        request.add_header("Content-Type", "application/json")
        with urlopen(request, timeout=120) as answer:
            assert answer.status == 200
    listed = json.loads(command("asset", "list", "-o", "json")[1])
    return listed[0]
