"""A cluster on this machine, to try one, for as long as the service runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jobrunner.cluster.connection import LOOPBACK, security_of
from jobrunner.config.settings import ClusterSection
from jobrunner.errors import Misconfigured

LOCAL = "local"
WORKERS = 2


def workers_of(text: str) -> int:
    """Read ``local`` or ``local:4``. Raises: Misconfigured."""
    kind, _, number = text.partition(":")
    if kind != LOCAL or (number and not number.isdigit()) or number == "0":
        known = '"local" or "local:4"; a cluster elsewhere is set by [cluster] scheduler'
        raise Misconfigured(f"--cluster {text!r}: must be {known}")
    return int(number or WORKERS)


@asynccontextmanager
async def local_cluster(workers: int) -> AsyncIterator[str]:
    """A scheduler in this process, and so many workers beside it; its address.

    Raises: Misconfigured."""
    security_of(ClusterSection(scheduler=f"tcp://{LOOPBACK[0]}"))
    import dask
    from distributed import LocalCluster

    dask.config.set({"distributed.scheduler.allowed-failures": 0})
    async with LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host=LOOPBACK[0],
        dashboard_address=f"{LOOPBACK[0]}:0",
        worker_dashboard_address=f"{LOOPBACK[0]}:0",
        asynchronous=True,
    ) as cluster:
        yield str(cluster.scheduler_address)
