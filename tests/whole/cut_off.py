"""``python -m tests.whole.cut_off N COMMAND...``: the command line, killed without a word at its
N-th touch of a file. With 0 it is not killed, and says in the end how often it touched one."""

import os
import signal
import sys
from typing import Any

TOUCHES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect", "open"}


def main() -> int:
    deadly, arguments, count = int(sys.argv[1]), sys.argv[2:], 0
    from jobrunner.app import backup_source  # noqa: F401 - what is imported later opens files too
    from jobrunner.cli import run
    from jobrunner.cli.frame import file  # noqa: F401
    from jobrunner.cli.keeping import backups, restores  # noqa: F401

    def on_event(event: str, given: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in TOUCHES or (event == "open" and not _is_ours(given)):
            return
        count += 1
        if count == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_event)
    code = run(arguments)
    print(f"touched {count}")
    return code


def _is_ours(given: tuple[Any, ...]) -> bool:
    """Not a module, nor anything else that lies with the program."""
    place = str(given[0])
    return not place.endswith((".py", ".pyc", ".so", ".pyi")) and os.getcwd() in os.path.abspath(
        place
    )


if __name__ == "__main__":
    sys.exit(main())
