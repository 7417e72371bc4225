"""The service itself, and what it offers."""

import importlib.util
import os
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from jobrunner.cli.frame.options import Asking, Flag, Where

if TYPE_CHECKING:
    from jobrunner.config.settings import Config
    from jobrunner.log import Log


def serve(*, reload: Flag = False, cluster: str = "", where: Where = Where()) -> int | None:
    """Run the service until SIGTERM or SIGINT; then drain.

    Parameters
    ----------
    reload
        For authors: start anew whenever a file of a plugin that is installed in place, or in
        the folder of plugins, has changed and everything loads.
    cluster
        To try one: "local" starts a cluster on this machine beside the service, of two workers;
        "local:4" of four. Stages that are bound to "dask" run there.
    """
    if reload:
        from jobrunner.cli.frame.reload import serve_anew

        words = ("--config", str(where.config)) if where.config else ()
        return anyio.run(serve_anew, where.load(), words)
    _serve(where, cluster)
    return None


def _serve(where: Where, cluster: str) -> None:
    from jobrunner import app
    from jobrunner.log import bridge, open_log

    os.umask(0o077)  # what the service and its stages make is its owner's alone
    config = where.load()
    log = open_log(config.log, os.environ)
    bridge(log)
    uvloop = importlib.util.find_spec("uvloop") is not None
    try:
        options = {"use_uvloop": uvloop}
        if cluster:
            anyio.run(_serve_beside, cluster, config, log, backend_options=options)
        else:
            anyio.run(app.serve, config, log, backend_options=options)
    finally:
        log.close()


async def _serve_beside(cluster: str, config: "Config", log: "Log") -> None:
    from jobrunner import app
    from jobrunner.cluster.local import local_cluster, workers_of

    async with local_cluster(workers_of(cluster)) as address:
        beside = replace(config.cluster, scheduler=address, ca="", cert="", key="", listen="")
        await app.serve(replace(config, cluster=beside), log)


async def openapi(*, asking: Asking = Asking()) -> None:
    """Print the running service's OpenAPI document."""
    from jobrunner.cli.frame import printing
    from jobrunner.cli.frame.service import service

    async with service(asking) as running:
        printing.json(await running.get("/openapi.json"))
