"""The token of a copy in a store of objects: one object, whose content says who may serve.

It changes hands by a write on condition that it is still the one that somebody has read. The store
decides about each such write at once and for all, so two never have it.
"""

from jobrunner.core.keeping.standby import StandbyToken, token_of
from jobrunner.errors import StorageError
from jobrunner.files.standby.shelf import StandbyShelf
from jobrunner.files.standby.tokens import TokenPlace

TOKEN, TRIAL = "token/held", "token/trial"


class FarTokenPlace(TokenPlace):
    def __init__(self, shelf: StandbyShelf) -> None:
        super().__init__(shelf.root)
        self._shelf = shelf
        self._marks: dict[str, str] = {}

    def find(self) -> StandbyToken | None:
        try:
            data, mark = self._shelf.read(TOKEN)
        except FileNotFoundError:
            return None
        name = data.decode("ascii", "replace")
        if (found := token_of(name)) is None:
            raise StorageError(f"{self.root}{TOKEN} is no token: it says {name[:80]!r}")
        self._marks = {name: mark}
        return found

    def demand(self) -> None:
        if not self._shelf.has(TOKEN):
            raise FileNotFoundError(f"{self.root} has no token")

    def make(self, token: StandbyToken) -> bool:
        """Make the first one, where the store can be trusted with it. Raises: Misconfigured"""
        self._shelf.demand_conditions(f"{TRIAL}.{token.holder}")
        return self._noted(token, self._shelf.create(TOKEN, token.name.encode()))

    def swap(self, old: StandbyToken, new: StandbyToken, *, safely: bool = False) -> bool:
        if old.name not in self._marks and (found := self.find()) != old:
            return found == new
        data, mark = new.name.encode(), self._marks[old.name]
        if self._noted(new, self._shelf.exchange(TOKEN, data, mark)):
            return True
        # The library may have sent it twice, and the first answer was lost: the name is ours.
        return self.find() == new

    def _noted(self, token: StandbyToken, mark: str | None) -> bool:
        if mark is not None:
            self._marks = {token.name: mark}
        return mark is not None
