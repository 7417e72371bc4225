"""Load on a service from a process of its own: it costs the service what it asks, and no more."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def apart(work: Callable[..., None], *given: Any) -> Iterator[None]:
    """Do this for as long as the context is open."""
    process = multiprocessing.Process(target=work, args=given)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()
