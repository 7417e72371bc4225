"""The token of a copy: exactly one file, whose name says who may serve.

It changes hands by a renaming from the name that somebody has read to the one that he wants. If it
has changed meanwhile there is no file of that name, and the renaming fails: two never have it.
"""

import os
import shutil
from pathlib import Path

from jobrunner.core.keeping.standby import StandbyToken, token_of
from jobrunner.errors import StorageError
from jobrunner.files.folders import flush, made

FOLDER = "token"
BOOT = Path("/proc/sys/kernel/random/boot_id")


class TokenPlace:
    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = Path(root) / FOLDER

    def find(self) -> StandbyToken | None:
        """The token; None where there never was one.

        Raises: StorageError, OSError
        """
        try:
            found = [token for name in os.listdir(self.folder) if (token := token_of(name))]
        except FileNotFoundError:
            return None
        if len(found) != 1:
            raise StorageError(
                f"{self.folder} has {len(found)} tokens, and one is right: look which machine "
                "serves, and leave only the one of its name"
            )
        return found[0]

    def demand(self) -> None:
        """Raises: OSError, where the place is not there: nothing is to be made in its stead."""
        os.stat(self.folder)

    def make(self, token: StandbyToken) -> bool:
        """Make the first one; False when somebody else was quicker. A folder with something in it
        is not replaced by another, so one of two wins."""
        root = made(Path(self.root))
        draft = root / f".{FOLDER}.{token.holder}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        (draft / token.name).touch(mode=0o600)
        flush(draft)
        try:
            os.rename(draft, self.folder)
        except OSError:
            if not self.folder.is_dir():
                raise
            return False
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        flush(root)
        return True

    def swap(self, old: StandbyToken, new: StandbyToken, *, safely: bool = False) -> bool:
        """Turn the old into the new; False when it is the old one no more. ``safely``: on the disk
        when this returns, so that a failure of power there cannot undo it.

        Raises: OSError
        """
        try:
            os.rename(self.folder / old.name, self.folder / new.name)
        except FileNotFoundError:
            # A server of files may have done it and lost the answer; the name is nobody else's.
            return (self.folder / new.name).exists()
        if safely:
            flush(self.folder)
        return True


def mark_of(place: str) -> str:
    """Tell a file from any copy of it, wherever that is and whatever it says; also from one on a
    cloned disk, which another machine has started since. Where a machine has no such number, clones
    are alike. Raises: OSError"""
    found = os.stat(place)
    return f"{found.st_ino}-{found.st_dev}-{_boot()}"


def _boot() -> str:
    """Another one each time that a machine starts."""
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""
