"""Runs on a worker of the cluster: Dask calls ``perform`` there in a thread, once for each attempt.
It calls back to the service, and runs the stage until that is over."""

import asyncio
import importlib.metadata
import os
import ssl
import sys
from functools import cache
from typing import Any

import anyio

from jobrunner.cluster.far_seat import FarSeat
from jobrunner.cluster.frame_line import FrameLine, LineLost
from jobrunner.cluster.frames import CallFrame, HaltFrame, SeatOrder, order_of
from jobrunner.cluster.seats import Skills
from jobrunner.files.lent import own_folder
from jobrunner.loading import load_definitions, load_settings
from jobrunner.ports import system_ports
from jobrunner.stages import Registry
from jobrunner.work import for_elsewhere

CALL_S = 10.0
_under_way: set[str] = set()


def perform(data: bytes) -> str:
    """Run one attempt. Returns why it did not come to that; empty when it did."""
    order = order_of(data)
    folder, context = _place()
    _under_way.add(order.key)
    try:
        return asyncio.run(_performed(order, folder, context))
    finally:
        _under_way.discard(order.key)


def under_way() -> list[str]:
    """The attempts that run in this worker."""
    return sorted(_under_way)


async def skills() -> Skills:
    """Say what this worker is, and what it has."""
    return await anyio.to_thread.run_sync(_skills)


def versions(registry: Registry) -> dict[str, str]:
    """The stages that are there, by the distribution and the version that bring them."""
    return {
        name: _version(registry.by(name))
        for name in registry.stages
        if name not in registry.refused["stages"]
    }


def own_version() -> str:
    return _version("jobrunner")


def python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _skills() -> Skills:
    config, registry = _loaded()
    there = {**registry.supplied, **config.resources}
    return Skills(python(), own_version(), versions(registry), there)


@cache
def _loaded() -> tuple[Any, Registry]:
    """Load plugins by the config.toml of this machine, and what they need of it."""
    config = for_elsewhere(load_settings())
    return config, load_definitions(config, at_home=True)


def _place() -> tuple[str, ssl.SSLContext | None]:
    """The folder of this worker, and how it proves who it is."""
    from distributed import get_worker

    worker = get_worker()
    proofs = worker.security.get_connection_args("worker")
    return os.path.join(worker.local_directory, "jobrunner"), proofs.get("ssl_context")


async def _performed(order: SeatOrder, folder: str, context: ssl.SSLContext | None) -> str:
    try:
        async with asyncio.timeout(CALL_S):
            reader, writer = await asyncio.open_connection(order.host, order.port, ssl=context)
    except (OSError, TimeoutError) as refused:
        return f"does not reach this service at {order.host}:{order.port} ({refused})"
    line = FrameLine(reader, writer, order.silence_s)
    try:
        await line.say(CallFrame(order.token))
        _, registry = _loaded()
        stage = registry.stage(order.stage)
        if stage is None:
            return f"has no stage {order.stage}"
        ports = system_ports()
        with own_folder(folder, ports.ids.fresh()) as mine:
            seat = FarSeat(order, line, ports, mine)
            await _until_over(seat.run(stage), seat, line)
    except LineLost:
        return ""
    finally:
        await line.close()
    return ""


async def _until_over(work: Any, seat: FarSeat, line: FrameLine) -> None:
    """The stage, for as long as anybody wants to know."""
    task = asyncio.ensure_future(work)

    async def listen() -> None:
        try:
            async for frame in line.heard():
                if isinstance(frame, HaltFrame):
                    break
                seat.hear(frame)
        except LineLost:
            pass
        task.cancel()

    beside = [asyncio.ensure_future(listen()), asyncio.ensure_future(line.keep())]
    try:
        await asyncio.wait({task})
        if not task.cancelled() and (fault := task.exception()) is not None:
            raise fault
    finally:
        for one in beside:
            one.cancel()


def _version(distribution: str) -> str:
    if not distribution:
        return ""
    try:
        return f"{distribution} {importlib.metadata.version(distribution)}"
    except importlib.metadata.PackageNotFoundError:
        return ""
