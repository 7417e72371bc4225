"""The service itself, and what it offers."""

import importlib.util
import os
from typing import Annotated

import anyio
from cyclopts import Parameter

from jobrunner.cli.frame.options import Asking, Where

Flag = Annotated[bool, Parameter(negative="")]


def serve(*, reload: Flag = False, where: Where = Where()) -> int | None:
    """Run the service until SIGTERM or SIGINT; then drain.

    Parameters
    ----------
    reload
        For authors: start anew whenever a file of a plugin that is installed in place, or in
        the folder of plugins, has changed and everything loads.
    """
    if reload:
        from jobrunner.cli.frame.reload import serve_anew

        words = ("--config", str(where.config)) if where.config else ()
        return anyio.run(serve_anew, where.load(), words)
    _serve(where)
    return None


def _serve(where: Where) -> None:
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
