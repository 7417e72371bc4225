"""A cluster on three machines, with certificates between them: network namespaces stand for hosts.
One of them loses its line, and gets it back."""

from pathlib import Path

import pytest

pytest.importorskip("distributed")

from tests.cluster.dask_at_work import dask_processes, joined, seats_of, served_by
from tests.cluster.hosts import HERE, hosts, may_make_hosts, run
from tests.cluster.test_cluster_losses import begun, right
from tests.work.living import until

pytestmark = [pytest.mark.anyio, pytest.mark.long]
PROOFS = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=all -keyout ca.key -out ca.pem",
)
ONE = (
    "openssl req -newkey rsa:2048 -nodes -subj /CN={0} -keyout {0}.key -out {0}.csr",
    "openssl x509 -req -days 2 -in {0}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out {0}.pem",
)


def certified(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for line in (*PROOFS, *(one.format(name) for name in names for one in ONE)):
        run(line, folder)
    return folder


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
