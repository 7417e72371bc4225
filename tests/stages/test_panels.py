"""The files of a panel are those that were there when it was taken in."""

import shutil
from pathlib import Path

import pytest

from jobrunner import Panel
from jobrunner.stages import Registry
from jobrunner.stages.beside.panels import files_of


def test_a_package_that_is_replaced_beneath_a_service_changes_no_panel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of one and half of another, or a list of workflows that fails, would be worse."""
    package = tmp_path / "jobrunner_airship"
    (package / "panel").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "panel" / "index.html").write_text("<title>one</title>")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry, panel = Registry(), Panel("airship", "jobrunner_airship")
    registry.add(panel)
    assert not registry.refused["panels"]
    shutil.rmtree(package / "panel")
    assert files_of(registry.panels["airship"]) == {"index.html": b"<title>one</title>"}
