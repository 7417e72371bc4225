"""Time that passes by itself, and an order that a seed decides."""

import asyncio
import os
import subprocess
import sys
from contextvars import copy_context
from pathlib import Path

import anyio
import pytest

from jobrunner.testing.simulation.loop import (
    LIFE,
    Deadlock,
    Livelock,
    RealWorld,
    SimLoop,
    simulated,
)
from jobrunner.testing.simulation.world import SimClock

ROOT = Path(__file__).resolve().parents[2]


async def crowd(loop: SimLoop) -> list[str]:
    """Twenty that sleep, and are stopped in the middle of it."""
    said: list[str] = []

    async def one(number: int) -> None:
        try:
            await SimClock(loop).sleep(number % 3)
            said.append(f"up {number}")
            await SimClock(loop).sleep(1000)
        finally:
            said.append(f"out {number}")

    with anyio.move_on_after(50):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, number)
    assert 50 <= loop.time() < 51
    return [*said, loop.digest]


def test_the_same_seed_is_the_same_order() -> None:
    first = simulated(crowd, 7)
    assert all(simulated(crowd, 7) == first for _ in range(20))
    assert len({tuple(simulated(crowd, seed)) for seed in range(20)}) == 20


def test_another_process_goes_the_same_way() -> None:
    """Neither addresses nor the hash of texts have a say."""
    script = "from tests.testing.test_loop import *; print(simulated(crowd, 7))"
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": salt, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        ).stdout
        for salt in ("1", "2")
    }
    assert found == {f"{simulated(crowd, 7)}\n".encode()}


def test_nobody_waits_for_ever_unseen() -> None:
    async def alone(loop: SimLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match="alone"):
        simulated(alone, 1)


def test_nobody_spins_unseen() -> None:
    async def spinning(loop: SimLoop) -> None:
        while True:
            await anyio.lowlevel.checkpoint()

    with pytest.raises(Livelock, match="spinning"):
        simulated(spinning, 1)


def test_the_real_world_is_out_of_reach() -> None:
    async def thread(loop: SimLoop) -> None:
        await anyio.to_thread.run_sync(int)

    async def socket(loop: SimLoop) -> None:
        await anyio.connect_tcp("127.0.0.1", 1)

    async def executor(loop: SimLoop) -> None:
        await loop.run_in_executor(None, int)

    async def program(loop: SimLoop) -> None:
        await anyio.run_process(["true"])

    for reaching in (thread, socket, executor, program):
        with pytest.raises(RealWorld):
            simulated(reaching, 1)


def test_a_life_that_ends_does_nothing_more() -> None:
    """Not even its last will, until the simulation is over; whoever lives does not notice."""
    said: list[str] = []

    async def mortal(clock: SimClock) -> None:
        try:
            await clock.sleep(10)
            said.append("woke")
        finally:
            said.append("unwound")

    async def world(loop: SimLoop) -> None:
        clock = SimClock(loop)
        life, context = object(), copy_context()
        context.run(LIFE.set, life)
        loop.create_task(mortal(clock), context=context)
        await clock.sleep(5)
        loop.end_life(life)
        await clock.sleep(50)
        assert said == []

    simulated(world, 1)
    assert said == ["unwound"]
