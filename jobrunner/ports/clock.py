"""The clock of this machine, and ids and secrets of its randomness."""

import random
import secrets
import signal
import time

import anyio

from jobrunner.ports.seams import Clock

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
        self._last = (0, 0)
        self._pool = b""
        self._used = 0

    def fresh(self) -> str:
        now, drawn = self._clock.now(), self._draw()
        counter, tail = drawn >> 34, drawn & 0x3FFFFFFF
        if now <= self._last[0]:
            now, counter = self._last[0], self._last[1] + 1
        if counter >> 32:
            now, counter = now + 1, 0
        self._last = (now, counter)
        high = (now << 16) | 0x7000 | (counter >> 20)
        low = (0b10 << 62) | ((counter & 0xFFFFF) << 42) | tail
        text = f"{high << 64 | low:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _draw(self) -> int:
        """64 random bits."""
        if self._used == len(self._pool):
            self._pool, self._used = secrets.token_bytes(4096), 0
        self._used += 8
        return int.from_bytes(self._pool[self._used - 8 : self._used], "big")

    def jitter(self) -> float:
        return random.random()

    def secret(self) -> str:
        return "jr_" + secrets.token_urlsafe(32)
