"""What is installed here, as it would run under a config; for commands that need no service."""

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from jobrunner.config.settings import Config

if TYPE_CHECKING:
    from jobrunner.stages import Registry


def installed(config: Config) -> "Registry":
    """What a plugin prints while it is imported is none of our answer."""
    from jobrunner.app import load_definitions

    with redirect_stdout(sys.stderr):
        return load_definitions(config)
