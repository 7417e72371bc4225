"""The clock of this machine, and ids and secrets of its randomness."""

import random
import secrets
import signal
import struct
import time
from collections.abc import Iterator

import anyio

from jobrunner.ports.seams import Clock

TEXT = "%08x-%04x-7%03x-%04x-%012x"
UNSYNCHRONISED = 5
TIMEX_BYTES = 512  # more than the system's struct has


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def rest(seconds: float) -> None:
    """Let a thread that is not the loop's do nothing for so long."""
    time.sleep(seconds)


def since_boot() -> float:
    """Seconds by a clock that nobody sets and that goes on while the machine is asleep."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def end_after(seconds: float) -> None:
    """Let the system end this process when so much time has passed; 0 takes that back. One that
    stood still meanwhile is ended before it does anything else."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def is_synchronised() -> bool | None:
    """Say whether the system keeps its clock by others'; None where it does not tell."""
    import ctypes  # slow to come by, and seldom asked for

    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (AttributeError, OSError):
        return None
    state = adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))  # all zero: only asks
    return None if state < 0 else bool(state != UNSYNCHRONISED)


class SystemIds:
    """UUIDv7 with a counter in the random bits, so that ids of one millisecond still rise. Random
    bytes are fetched many at a time: a system call for each would cost more than the id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now = self._counter = 0
        self._drawn: Iterator[int] = iter(())

    def fresh(self) -> str:
        now, drawn = self._clock.now(), next(self._drawn, None) or self._draw()
        if now > self._now:
            counter = drawn >> 34
        else:
            now, counter = self._now, self._counter + 1
            if counter >> 32:
                now, counter = now + 1, 0
        self._now, self._counter = now, counter
        return TEXT % (
            now >> 16,
            now & 0xFFFF,
            counter >> 20,
            0x8000 | counter >> 6 & 0x3FFF,
            (counter & 0x3F) << 42 | drawn & 0x3FFFFFFF,
        )

    def _draw(self) -> int:
        """64 random bits."""
        self._drawn = iter(struct.unpack("512Q", secrets.token_bytes(4096)))
        return next(self._drawn)

    def jitter(self) -> float:
        return random.random()

    def secret(self) -> str:
        return "jr_" + secrets.token_urlsafe(32)
