"""Files by the command line: there, back, and over a break."""

import json
from pathlib import Path

from tests.cli.conftest import Command


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
