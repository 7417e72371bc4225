"""What all tests share: one event loop, and the plugins of this tree, installed or not.

A plugin that is not installed is made to look as if it were: its folder goes on the path, and a
folder with what an installer would have written about it goes beside it, for this process and for
those that it starts.
"""

import atexit
import os
import shutil
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def _projects() -> dict[Path, dict[str, Any]]:
    files = sorted(ROOT.glob("plugins/*/pyproject.toml"))
    return {file.parent: tomllib.loads(file.read_text())["project"] for file in files}


def _is_installed(project: dict[str, Any]) -> bool:
    return all(
        name in entry_points(group=group).names
        for group, entries in project.get("entry-points", {}).items()
        for name in entries
    )


def _pretend(project: dict[str, Any], beside: Path) -> None:
    folder = beside / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


def _lend_plugins() -> None:
    missing = {path: project for path, project in _projects().items() if not _is_installed(project)}
    if not missing:
        return
    beside = Path(tempfile.mkdtemp(prefix="jobrunner-plugins-"))
    atexit.register(shutil.rmtree, beside, ignore_errors=True)
    for project in missing.values():
        _pretend(project, beside)
    lent = [str(ROOT), *map(str, missing), str(beside)]
    sys.path += [path for path in lent if path not in sys.path]
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*([inherited] if inherited else []), *lent])


_lend_plugins()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: a quarter of the time tests wait for processes and clocks."""
    return (os.cpu_count() or 1) + 1


SEEN_AFTER: dict[threading.Thread, str] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Which test a thread was first seen after."""
    answer = yield
    for thread in threading.enumerate():
        SEEN_AFTER.setdefault(thread, item.nodeid)
    return answer


def pytest_unconfigure(config: pytest.Config) -> None:
    """A store that nobody closed has a thread that would keep this process from ending."""
    left = [one for one in threading.enumerate() if one is not threading.main_thread()]
    left = [one for one in left if not one.daemon]
    if left:
        for thread in left:
            print(f"left open: {thread.name}, since {SEEN_AFTER.get(thread)}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)
