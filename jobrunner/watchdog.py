"""Outlives the loop: a thread that counts how long nobody ticked, and the end at once."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

LAST_WORDS_S = 1.0


class SystemWatchdog:
    """A thread that acts when nobody ticked for a while: it alone sees a loop that hangs."""

    def __init__(self, silence_s: float, on_silence: Callable[[], None]) -> None:
        self._silence_s = silence_s
        self._on_silence = on_silence
        self._seen = time.monotonic()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def tick(self) -> None:
        self._seen = time.monotonic()

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        nap_s = self._silence_s / 4
        looked_at = time.monotonic()
        while not self._closed.wait(nap_s):
            late_s = time.monotonic() - looked_at - nap_s
            if self._is_silent(late_s):
                self._on_silence()
                return
            looked_at = time.monotonic()

    def _is_silent(self, late_s: float) -> bool:
        """``late_s`` is how much longer than meant the dog itself has slept. Where even that is
        long, everything stood still (a stopped process, a machine that slept), and who had no
        chance to tick is given the whole time again."""
        now = time.monotonic()
        if late_s > self._silence_s / 4:
            self._seen = now
        return now - self._seen > self._silence_s


def end_process(code: int, last_words: bytes = b"", places: tuple[int, ...] = (2,)) -> None:
    """At once, without cleaning up: the disk is right, the memory is not to be trusted. The last
    words go to the error output, or where the log goes, and no later than that: perhaps nobody
    reads there any more."""
    speakers = [
        threading.Thread(target=_say, args=(last_words, place), daemon=True) for place in places
    ]
    until = time.monotonic() + LAST_WORDS_S
    with suppress(RuntimeError):  # no more threads: then without a word
        for speaker in speakers:
            speaker.start()
        for speaker in speakers:
            speaker.join(max(until - time.monotonic(), 0))
    os._exit(code)


def _say(words: bytes, place: int) -> None:
    with suppress(OSError):
        while words:
            words = words[os.write(place, words) :]


def stack_of_loop() -> list[str]:
    """List the frames of the main thread, which is the one with the loop."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return [line.strip() for line in traceback.format_stack(frame)] if frame else []
