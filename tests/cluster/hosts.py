"""Network namespaces that stand for hosts beside this one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Tests in other processes have nets of their own.
NET = f"10.77.{os.getpid() % 256}"
HERE = f"{NET}.1"


def run(line: str, folder: Path | None = None) -> None:
    done = subprocess.run(line.split(), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}: {done.stderr}"


def may_make_hosts() -> bool:
    name = f"jr{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made.returncode == 0


@contextmanager
def hosts(number: int) -> Iterator[list[tuple[str, str, str]]]:
    """So many beside this one: name, address, and the end of the line to it that is here."""
    mark, made = os.getpid() % 10_000, []
    run(f"ip link add jrb{mark} type bridge")
    try:
        run(f"ip addr add {HERE}/24 dev jrb{mark}")
        run(f"ip link set jrb{mark} up")
        for one in range(number):
            name, end, address = f"jr{mark}n{one}", f"jr{mark}v{one}", f"{NET}.{one + 2}"
            run(f"ip netns add {name}")
            made.append((name, address, end))
            run(f"ip link add {end} type veth peer name eth0 netns {name}")
            run(f"ip link set {end} master jrb{mark} up")
            for line in (f"addr add {address}/24 dev eth0", "link set eth0 up", "link set lo up"):
                run(f"ip -n {name} {line}")
        yield made
    finally:
        for (
            name,
            _,
            end,
        ) in made:  # the line first: what is left in there keeps its own end for a while
            subprocess.run(["ip", "link", "del", end], capture_output=True, check=False)
            run(f"ip netns del {name}")
        run(f"ip link del jrb{mark}")
