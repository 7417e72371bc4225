"""The service's own secrets for notifications, out of variables of the environment or of a file
beside the database that only its owner can read.

The file holds one secret a line, the newest first. It is read again when it has changed, so a
rotation needs no restart: a line is put on top, receivers learn what follows from it, and the old
line goes when all have.
"""

import os
from collections.abc import Callable, Mapping, Sequence

from jobrunner.actors.features.notifications.signing import SECRETS_MAX, Seals, checked_secrets
from jobrunner.errors import Misconfigured
from jobrunner.ports import Files

NAME = "notify.secret"
LENGTH_MIN = 24


class KeyFile:
    """Call it for the secrets that it holds now."""

    def __init__(self, path: str, files: Files) -> None:
        self.path = path
        self._files = files
        self._seen = (0, 0)
        self._secrets: list[str] = []

    def __call__(self) -> list[str]:
        """Raises: Misconfigured. What was read once goes on to count while the file is away."""
        try:
            found = os.stat(self.path)
            if self._seen != (found.st_mtime_ns, found.st_ino):
                self._secrets = self._read()
                self._seen = found.st_mtime_ns, found.st_ino
        except OSError as error:
            if not self._secrets:
                raise Misconfigured(f"{self.path}: cannot be read: {error.strerror}") from error
        return self._secrets

    def make(self, secret: str) -> None:
        """Make the secret if there is none yet. Raises: Misconfigured, for one that is of no
        use."""
        try:
            os.stat(self.path)
        except FileNotFoundError:
            self._files.write_private(self.path, f"{secret}\n".encode())
        except OSError as error:
            raise Misconfigured(f"{self.path}: cannot be read: {error.strerror}") from error
        else:
            self()

    def rotate(self, secret: str) -> None:
        """A new first line; of the old ones, only the newest stays."""
        lines = [secret, *self()[:1]]
        self._files.write_private(self.path, "".join(f"{line}\n" for line in lines).encode())

    def _read(self) -> list[str]:
        lines = self._files.read(self.path).decode(errors="replace").split()
        if not 1 <= len(lines) <= SECRETS_MAX or min(map(len, lines)) < LENGTH_MIN:
            raise Misconfigured(
                f"{self.path}: must hold 1 to {SECRETS_MAX} secrets of at least {LENGTH_MIN} "
                "characters, one a line; remove the file to have one made"
            )
        return lines


def key_file_beside(database: str, files: Files) -> KeyFile:
    return KeyFile(os.path.join(os.path.dirname(os.path.abspath(database)), NAME), files)


def seals(
    file: KeyFile, variables: Sequence[str], own: Mapping[str, str], environ: Mapping[str, str]
) -> Seals:
    """``variables`` win over the file; ``own`` names, by an endpoint's owner, the variable with the
    secrets of its own.

    Raises: Misconfigured, for a variable that is not there or holds no secret.
    """
    masters = [_variable(name, environ) for name in variables]
    kept = {owner: checked_secrets(name, _variable(name, environ)) for owner, name in own.items()}
    read: Callable[[], list[str]] = (lambda: masters) if masters else file
    return Seals(read, kept)


def _variable(name: str, environ: Mapping[str, str]) -> str:
    text = environ.get(name, "").strip()
    if len(text) < LENGTH_MIN:
        raise Misconfigured(
            f"the variable {name}, named in the settings of notifications, must hold a secret of "
            f"at least {LENGTH_MIN} characters"
        )
    return text
