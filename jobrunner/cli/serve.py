"""The service itself, and what it offers."""

import importlib.util
import os

import anyio

from jobrunner.cli.frame.options import Asking, Where


def serve(*, where: Where = Where()) -> None:
    """Run the service until SIGTERM or SIGINT; then drain."""
    from jobrunner import app
    from jobrunner.log import bridge, open_log

    os.umask(0o077)  # what the service and its stages make is its owner's alone
    config = where.load()
    log = open_log(config.log, os.environ)
    bridge(log)
    uvloop = importlib.util.find_spec("uvloop") is not None
    try:
        anyio.run(app.serve, config, log, backend_options={"use_uvloop": uvloop})
    finally:
        log.close()


async def openapi(*, asking: Asking = Asking()) -> None:
    """Print the running service's OpenAPI document."""
    from jobrunner.cli.frame import printing
    from jobrunner.cli.frame.service import service

    async with service(asking) as running:
        printing.json(await running.get("/openapi.json"))
