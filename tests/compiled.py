"""Compiles what the tests import, once for all of them, before the first one runs.

They start hundreds of processes, and each worker reads every test. An environment may forbid python
to keep what it compiled, and an installer may have compiled nothing: then each process would do so
for a second or more, which is most of what it does. Nothing else is kept: what tests write and
change stays as the environment has it.
"""

import compileall
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = ("jobrunner", "plugins")
TAG = f"{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
IMPORTED = re.compile(r"^ *(?:from|import) ([a-zA-Z]\w*(?:\.\w+)*)", re.MULTILINE)


def main() -> None:
    sys.dont_write_bytecode = False
    for folder in OURS:
        compileall.compile_dir(ROOT / folder, quiet=1)
    if any(map(is_stale, (ROOT / "tests").rglob("test_*.py"))):
        pytest.main(["--collect-only", "-qq"])
        for name in sorted(set(foreign())):
            with suppress(Exception):  # whoever needs what is absent will say so
                import_module(name)


def is_stale(path: Path) -> bool:
    """Whether each worker would compile this test for itself."""
    kept = path.parent / "__pycache__" / f"{path.stem}.{TAG}"
    return not kept.exists() or kept.stat().st_mtime < path.stat().st_mtime


def foreign() -> Iterator[str]:
    """Every module of somebody else that ours import, at once or when it comes to that."""
    installed = packages_distributions()
    for folder in OURS:
        for path in (ROOT / folder).rglob("*.py"):
            for name in IMPORTED.findall(path.read_text()):
                package = name.partition(".")[0]
                if package in installed and not package.startswith("jobrunner"):
                    yield name


if __name__ == "__main__":
    main()
