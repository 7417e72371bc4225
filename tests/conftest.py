"""What all tests share: one event loop, and this tree's plugins importable without installing."""

import sys
from pathlib import Path

import pytest

PLUGINS = Path(__file__).resolve().parent.parent / "plugins"

for folder in sorted(PLUGINS.iterdir()) if PLUGINS.is_dir() else ():
    if (folder / "pyproject.toml").exists() and str(folder) not in sys.path:
        sys.path.append(str(folder))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
