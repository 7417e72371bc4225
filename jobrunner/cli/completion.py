"""``completion``: a script that completes commands, options and choices in a shell."""

from typing import Literal

from jobrunner.cli.frame.options import Where


def completion(shell: Literal["bash", "zsh", "fish"], /, *, where: Where = Where()) -> None:
    """Print a script for a shell, which completes commands, options and their choices.

    It knows the commands of this release: make it anew after an upgrade.
    """
    from jobrunner.cli import app

    print(app.generate_completion(prog_name="jobrunner", shell=shell))
