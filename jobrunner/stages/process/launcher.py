"""The first thing that runs in a stage's process: it limits it, watches it, and leaves nothing of
it behind. It is started as a file, by an interpreter that knows no paths yet, so it imports the
standard library only, and stays small: it lives as long as the stage.

The stage itself is a child of this process, in a session of its own. Whatever that starts is
inherited by this process when its parent goes (it is a "subreaper"), however it may detach itself;
so all of it is found below this process, and ended. When the service dies, its end of a pipe is
closed, and that is the order to end everything.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
from typing import Any, NoReturn

DEATH_SIGNAL, SUBREAPER = 1, 36
LOOK_S, GRACE_S = 0.1, 2.0
ROUNDS = 500
FIRST_TO_GO = 500  # of 1000; the service has what it was given, mostly 0
TOO_MANY = 125
BEHIND = 10  # a stage that computes takes no turn from the service, which answers many


def main() -> None:
    orders = json.loads(sys.argv[1])
    for pipe in ("out", "life"):
        orders[pipe] = _lowered(orders[pipe])
    _control(SUBREAPER, 1)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    stage = os.fork()
    if not stage:
        _become_stage(orders)
    os.close(0)
    os.close(orders["out"])
    code = _watch(stage, orders["life"], woken, asked, orders["limits"]["processes"])
    _end_all()
    os._exit(code)


def _lowered(number: int) -> int:
    """A busy service has high numbers, which not every call takes."""
    low = os.dup(number)
    os.close(number)
    return low


def _watch(stage: int, life: int, woken: int, asked: list[int], most: int) -> int:
    """Wait until the stage is over, by itself or by force. Return its exit code, or 128 and its
    signal."""
    patience: float | None = None
    while True:
        over = _reap(stage)
        if over is not None:
            return over
        if most and len(descendants()) > most:
            return TOO_MANY
        ready, _, _ = select.select([life, woken], [], [], LOOK_S)
        if life in ready:
            return 128 + signal.SIGKILL
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
        elif patience is not None:
            patience -= LOOK_S
        if asked and patience is None:
            patience = GRACE_S
            _send(stage, signal.SIGTERM, group=True)
        if patience is not None and patience <= 0:
            return 128 + signal.SIGKILL


def _reap(stage: int) -> int | None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if pid == 0:
            return None
        if pid == stage:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _end_all() -> None:
    """End everything below this process, until there is nothing. What was only just started by what
    is being ended is found in the next round."""
    for _ in range(ROUNDS):
        for pid in descendants():
            _send(pid, signal.SIGKILL)
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                return
        select.select([], [], [], 0.01)


def descendants() -> list[int]:
    found, waiting = [], [os.getpid()]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
    return found


def _send(pid: int, number: int, group: bool = False) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


# ---------------------------------------------------------------- the stage's own process


def _become_stage(orders: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        os.nice(BEHIND)
        _control(DEATH_SIGNAL, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.close(orders["life"])
        told = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        _offer_to_the_kernel()
        _limit(orders["limits"])
        sys.path[:] = orders["path"]
        sys.argv[1:] = []
        from jobrunner.stages.process.child import perform

        perform(told, orders["out"])
        code = 0
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _offer_to_the_kernel() -> None:
    """When memory is short this is ended, with what it starts, and not the service."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(FIRST_TO_GO))


def _limit(limits: dict[str, int]) -> None:
    """The hard limit of computing is a second later, so that the kernel's first word is the one
    that tells why."""
    pairs = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_AS: (limits["memory"],) * 2,
        resource.RLIMIT_CPU: (limits["cpu_s"], limits["cpu_s"] and limits["cpu_s"] + 1),
        resource.RLIMIT_FSIZE: (limits["file_size"],) * 2,
        resource.RLIMIT_NOFILE: (limits["open_files"],) * 2,
    }
    for kind, (soft, hard) in pairs.items():
        if soft or kind == resource.RLIMIT_CORE:
            most = resource.getrlimit(kind)[1]
            fitting = [one if most < 0 else min(one, most) for one in (soft, hard)]
            resource.setrlimit(kind, (fitting[0], fitting[1]))


def _control(option: int, value: int) -> None:
    """Ask the system for what only Linux has; elsewhere the other means have to do."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
