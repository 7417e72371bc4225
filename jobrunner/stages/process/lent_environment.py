"""What a program that a plugin starts is told of the environment, in which every key of the service
stands."""

import os

from jobrunner.ports import LENT


def lent_environment(*names: str) -> dict[str, str]:
    """What finds programs, languages and the time zone, and ``names``; no key of anybody's."""
    return {name: os.environ[name] for name in (*LENT, *names) if name in os.environ}
