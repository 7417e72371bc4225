"""The way out of one attempt: exchanges and downloads, by the gate and under the operator's rules,
wherever the stage runs."""

import os

from jobrunner.errors import PermanentFailure
from jobrunner.files.library import checked_name, handed_out
from jobrunner.outgoing.calls import Download, Exchange, Fetched, Reply
from jobrunner.outgoing.gate import Outlets
from jobrunner.stages.given import Given

PATIENCE_S_MAX = 86_400
REDIRECTS_MAX = 20


class WayOut:
    def __init__(self, outlets: Outlets, given: Given) -> None:
        self._outlets = outlets
        self._given = given
        self._taken: set[str] = set()

    async def exchange(self, wanted: Exchange) -> Reply:
        """Raises: RetryableFailure, PermanentFailure."""
        _check(wanted)
        return await self._outlets.exchange(wanted, self._given.settings)

    async def download(self, wanted: Download) -> Fetched:
        """Download under a name that no other download of this attempt has."""
        _check(wanted)
        path = self._free_path(checked_name(wanted.name))
        self._taken.add(path)
        handed_out(self._given.scratch)
        try:
            return await self._outlets.download(wanted, path, self._given.settings)
        except BaseException:
            self._taken.discard(path)
            raise

    def _free_path(self, name: str) -> str:
        stem, ending = os.path.splitext(name)
        path, number = os.path.join(self._given.scratch, name), 1
        while path in self._taken or os.path.lexists(path):
            number += 1
            path = os.path.join(self._given.scratch, f"{stem}-{number}{ending}")
        return path


def _check(asked: Exchange | Download) -> None:
    """A stage in a process is not believed that its words went through our context."""
    patience = asked.patience
    waits = (patience.connect_s, patience.idle_s, patience.total_s)
    if not all(0 < seconds <= PATIENCE_S_MAX for seconds in waits):
        text = f"patience {waits}: each of its seconds is above 0 and at most {PATIENCE_S_MAX}"
        raise PermanentFailure("BAD_REQUEST", text)
    if isinstance(asked, Exchange) and not 0 <= asked.redirects <= REDIRECTS_MAX:
        text = f"redirects={asked.redirects}: a number from 0 to {REDIRECTS_MAX}"
        raise PermanentFailure("BAD_REQUEST", text)
