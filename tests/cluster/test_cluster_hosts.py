"""A cluster on three machines, with certificates between them: network namespaces stand for hosts.
One of them loses its line, and gets it back."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from tests.cluster.dask_at_work import dask_processes, joined, seats_of, served_by
from tests.cluster.test_cluster_losses import begun, right
from tests.work.living import until

pytestmark = [pytest.mark.anyio, pytest.mark.long]
HERE = "10.77.0.1"
PROOFS = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=all -keyout ca.key -out ca.pem",
)
ONE = (
    "openssl req -newkey rsa:2048 -nodes -subj /CN={0} -keyout {0}.key -out {0}.csr",
    "openssl x509 -req -days 2 -in {0}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out {0}.pem",
)


def run(line: str, folder: Path | None = None) -> None:
    done = subprocess.run(line.split(), cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}: {done.stderr}"


def may_make_hosts() -> bool:
    name = f"jr{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made.returncode == 0


def certified(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for line in (*PROOFS, *(one.format(name) for name in names for one in ONE)):
        run(line, folder)
    return folder


@contextmanager
def hosts(number: int) -> Iterator[list[tuple[str, str, str]]]:
    """So many beside this one: name, address, and the end of the line to it that is here."""
    mark, made = os.getpid() % 10_000, []
    run(f"ip link add jrb{mark} type bridge")
    try:
        run(f"ip addr add {HERE}/24 dev jrb{mark}")
        run(f"ip link set jrb{mark} up")
        for one in range(number):
            name, end, address = f"jr{mark}n{one}", f"jr{mark}v{one}", f"10.77.0.{one + 2}"
            run(f"ip netns add {name}")
            made.append((name, address, end))
            run(f"ip link add {end} type veth peer name eth0 netns {name}")
            run(f"ip link set {end} master jrb{mark} up")
            for line in (f"addr add {address}/24 dev eth0", "link set eth0 up", "link set lo up"):
                run(f"ip -n {name} {line}")
        yield made
    finally:
        for name, _, _ in made:
            run(f"ip netns del {name}")
        run(f"ip link del jrb{mark}")


@pytest.mark.skipif(not may_make_hosts(), reason="needs the right to make network namespaces")
@pytest.mark.parametrize("rounds", [10])
async def test_hosts_with_certificates_lose_a_line_and_get_it_back(
    tmp_path: Path, rounds: int
) -> None:
    proofs = certified(tmp_path / "tls", "service", "node")
    told = ["--tls-ca-file", "ca.pem", "--tls-cert", "node.pem", "--tls-key", "node.key"]
    words = [str(proofs / word) if "." in word else word for word in told]
    own = {"ca": "ca.pem", "cert": "service.pem", "key": "service.key"}
    terms = {name: str(proofs / file) for name, file in own.items()}
    with (
        hosts(2) as others,
        dask_processes(tmp_path / "dask", [*words, "--protocol", "tls"], HERE) as cluster,
    ):
        cluster.start_scheduler()
        await cluster.reached()
        assert cluster.address.startswith(f"tls://{HERE}:")
        for name, address, _ in others:
            cluster.start_worker(host=address, before=("ip", "netns", "exec", name))
        async with served_by(cluster, tmp_path / "it", terms=terms) as house:
            await joined(house, 2)
            for _ in range(rounds):
                job_id, _, gate = await begun(house, tmp_path, "keep_file", 1)
                where = house.service.facade.world.surroundings.elsewhere.where(job_id)
                (end,) = [end for _, address, end in others if f"//{address}:" in where]
                run(f"ip link set {end} down")
                await until(lambda: seats_of(house)["clearing"] == 1)
                gate.touch()
                await right(house, job_id)
                run(f"ip link set {end} up")
                await until(lambda: seats_of(house)["free"] == 2)
