"""Finds out whether the code of stages in processes is still what it was when the service started.

A process imports its code anew, from the disk. A plugin that is upgraded under a running service
would work there with its new code, for jobs that the old code decides about. So the files that a
stage is made of, those of its own package and of this one, are remembered when it is loaded, each
with its size and time. They are looked at before a process is started, and again when it has
imported everything and does not work yet; where one has changed the attempt is interrupted, and no
other one begins before a restart. What a stage imports later, while it works, and what other
packages bring, is not looked at.
"""

import os
import sys
from collections.abc import Callable, Iterator

from jobrunner.core.messages import Ended
from jobrunner.stages.api import Stage

CODE = (".py", ".so", ".pyd")
OURS = "jobrunner"
Files = dict[str, tuple[int, int]]

_at_start: dict[str, Files] = {}
_stale: dict[str, str] = {}


def remember(stage: Stage) -> None:
    """Remember the code of this stage as it is now; what is remembered already stays."""
    _stale.pop(stage.name, None)
    for root in _roots(stage):
        if root not in _at_start:
            _at_start[root] = _files(root)


def changed(stage: Stage) -> str:
    """Name a file that has changed since the start, if one has; blocks for some milliseconds."""
    for root in _roots(stage):
        now, then = _files(root), _at_start.get(root)
        if then is not None and now != then:
            where = min(
                path for path in now.keys() | then.keys() if now.get(path) != then.get(path)
            )
            _stale[stage.name] = where
            return where
    return ""


def is_stale(stage: Stage) -> bool:
    """Say whether its code was once found changed: only a restart makes one code of it again."""
    return stage.name in _stale


def unchanged(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Leave out the stages that begin nothing before a restart."""
    return tuple(stage for stage in stages if stage.name not in _stale) if _stale else stages


def stale_stages() -> dict[str, str]:
    """Map stages that begin nothing before a restart to a file of theirs that has changed."""
    return dict(_stale)


def interrupted(stage: Stage, where: str, log: Callable[[str], None]) -> Ended:
    """End an attempt that would have mixed old and new code. It has done nothing yet."""
    text = f"{where} has changed since the service was started; restart the service"
    log(f"stage {stage.name} was not run: {text}")
    return Ended(0, "interrupted")


def _roots(stage: Stage) -> list[str]:
    package = (getattr(stage.run, "__module__", "") or "").partition(".")[0]
    return sorted({root for name in (package, OURS) for root in _places(name)})


def _places(package: str) -> Iterator[str]:
    module = sys.modules.get(package)
    yield from getattr(module, "__path__", None) or filter(None, [getattr(module, "__file__", "")])


def _files(root: str) -> Files:
    if os.path.isfile(root):
        return dict(_seen(root))
    return {
        path: seen
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(CODE)
        for path, seen in _seen(os.path.join(folder, name))
    }


def _seen(path: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Read what identifies a file; nothing for one that is gone."""
    try:
        found = os.stat(path)
    except OSError:
        return
    yield path, (found.st_size, found.st_mtime_ns)
