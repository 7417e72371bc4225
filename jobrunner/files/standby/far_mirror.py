"""The files of jobs, and those beside the database, in a store of objects and back again."""

from collections.abc import Callable, Iterable
from pathlib import Path

from jobrunner.files.library import inside
from jobrunner.files.standby.mirror import FILES, LITTLE, Mirror
from jobrunner.files.standby.shelf import StandbyShelf
from jobrunner.files.stored_backups import BESIDE


class MirrorThere(Mirror):
    """Copies files from a folder to the store."""

    def __init__(self, source: str, shelf: StandbyShelf) -> None:
        super().__init__(source, "")
        self._shelf = shelf

    def bring(self, paths: Iterable[str]) -> list[str]:
        absent: list[str] = []
        for path in paths:
            source = inside(self.source, path)
            if not source.exists():
                absent.append(path)
            elif not self._shelf.has(f"{FILES}/{path}"):
                self._shelf.send(f"{FILES}/{path}", source)
        return absent

    def clear(self, needed: Callable[[str], set[str]], allowed: Callable[[], bool]) -> None:
        for key in self._shelf.keys(f"{FILES}/"):
            path = key.removeprefix(f"{FILES}/")
            gone = not Path(self.source, path).exists()
            if gone and path not in needed(Path(path).parent.name) and allowed():
                self._shelf.remove([key])


class MirrorBack(Mirror):
    """Copies files from the store to a folder."""

    def __init__(self, shelf: StandbyShelf, target: str) -> None:
        super().__init__("", target)
        self._shelf = shelf

    def bring(self, paths: Iterable[str]) -> list[str]:
        absent: list[str] = []
        for path in paths:
            place = inside(self.target, path)
            if place.exists():
                continue
            try:
                self._shelf.fetch(f"{FILES}/{path}", place)
            except FileNotFoundError:
                absent.append(path)
        return absent


class LittleFiles:
    """Copies the files beside a database. What was sent last is remembered, so nothing is asked for
    again."""

    def __init__(self, shelf: StandbyShelf) -> None:
        self._shelf = shelf
        self._sent: dict[str, bytes] = {}

    def send(self, source: str) -> None:
        """Raises: OSError"""
        for name in BESIDE:
            place = Path(source, name)
            if place.exists() and (data := place.read_bytes()) != self._sent.get(name):
                self._shelf.write(f"{LITTLE}/{name}", data)
                self._sent[name] = data

    def fetch(self, target: str) -> None:
        """Raises: OSError"""
        for name in BESIDE:
            try:
                self._shelf.fetch(f"{LITTLE}/{name}", Path(target, name))
            except FileNotFoundError:
                continue
