"""The place of a copy, whatever it is: a folder, or a store of objects."""

import os

from jobrunner.files.standby.copied_lines import CopiedLines
from jobrunner.files.standby.far_lines import FarLines
from jobrunner.files.standby.far_mirror import LittleFiles, MirrorBack, MirrorThere
from jobrunner.files.standby.far_tokens import FarTokenPlace
from jobrunner.files.standby.mirror import FILES, LITTLE, Mirror, bring_beside
from jobrunner.files.standby.shelf import StandbyShelf
from jobrunner.files.standby.tokens import TokenPlace

FAR = "s3://"


class FolderPlace:
    """``root`` is its name for people and for those who compare it."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.tokens = TokenPlace(self.root)
        self.lines = CopiedLines(self.root)

    def there(self, assets: str) -> Mirror:
        """Make what copies files of this machine there."""
        return Mirror(assets, os.path.join(self.root, FILES))

    def back(self, assets: str) -> Mirror:
        """Make what copies files back to this machine."""
        return Mirror(os.path.join(self.root, FILES), assets)

    def send_beside(self, folder: str) -> None:
        """The keys that lie beside a database, to the copy. Raises: OSError"""
        bring_beside(folder, os.path.join(self.root, LITTLE))

    def fetch_beside(self, folder: str) -> None:
        """And back. Raises: OSError"""
        bring_beside(os.path.join(self.root, LITTLE), folder)


class ShelfPlace:
    """``quick`` is the same place with less patience: the token is not waited for as long as a
    large file may take."""

    def __init__(self, shelf: StandbyShelf, quick: StandbyShelf) -> None:
        self.root = shelf.root
        self.tokens = FarTokenPlace(quick)
        self.lines = FarLines(shelf)
        self._shelf = shelf
        self._little = LittleFiles(shelf)

    def there(self, assets: str) -> Mirror:
        return MirrorThere(assets, self._shelf)

    def back(self, assets: str) -> Mirror:
        return MirrorBack(self._shelf, assets)

    def send_beside(self, folder: str) -> None:
        self._little.send(folder)

    def fetch_beside(self, folder: str) -> None:
        self._little.fetch(folder)


CopyPlace = FolderPlace | ShelfPlace
