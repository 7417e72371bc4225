"""The plugins installed here, as they would run under a config; no service is needed."""

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from jobrunner.config.settings import Config

if TYPE_CHECKING:
    from jobrunner.stages import Registry


def installed(config: Config) -> "Registry":
    """Load them, without printing what a plugin prints while it is imported."""
    from jobrunner.app import load_definitions

    with redirect_stdout(sys.stderr):
        return load_definitions(config)
