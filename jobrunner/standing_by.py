"""Fits the copy from which another machine can take over with its settings. It is opened before the
store, since a service that was taken over from may not even touch its file, and closed after it,
since the last write is copied, too.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.actors.keeping.standby.copying import StandbyCopy, StandbyPlaces
from jobrunner.actors.keeping.standby.leases import Lease
from jobrunner.actors.keeping.standby.mirroring import StandbyFiles
from jobrunner.config.settings import Config
from jobrunner.core.keeping.standby import StandbyState, StandbyTerms
from jobrunner.equipping import object_terms
from jobrunner.errors import Misconfigured, OutcomeUnknown
from jobrunner.files.folders import made as made_folder
from jobrunner.files.objects.bucket import ObjectStore
from jobrunner.files.standby.places import FAR, CopyPlace, FolderPlace, ShelfPlace
from jobrunner.files.standby.shelf import StandbyShelf
from jobrunner.files.standby.tokens import mark_of
from jobrunner.ports import Files, Ids, Ports, SystemFiles, end_after, since_boot
from jobrunner.store.keeping.standby.tap import Tap
from jobrunner.store.keeping.standby.writing import NO_STANDBY, StandbyWriting, copying
from jobrunner.store.opening import ProcessLock
from jobrunner.store.store import Store

NAME = ".standby"
QUICKER = 5
NAME_LETTERS = 16


class KnownMachine(Struct, frozen=True):
    """A machine, and the place whose token it has had last; empty, if none. ``mark`` is that of the
    folder in which it had it: one that was copied has another."""

    name: str
    root: str
    mark: str = ""


class Standby:
    """The copy, as the rooms need it; without one it does nothing."""

    def __init__(self, copy: StandbyCopy | None, files: StandbyFiles | None, tap: Any) -> None:
        self.copy = copy
        self._files = files
        self.copying: StandbyWriting = NO_STANDBY if copy is None else copying(tap, copy)

    def refusal(self) -> str:
        """Say why nobody may be answered; empty while all is well."""
        return self.copy.over() if self.copy is not None else ""

    def state(self) -> StandbyState | None:
        return self.copy.state() if self.copy is not None else None

    async def is_whole(self, on_loss: Callable[[OutcomeUnknown], None]) -> None:
        """The keys that lie beside the file are in the copy before anybody is answered. ``on_loss``
        is told when another machine has taken over.

        Raises: StorageError
        """
        if self.copy is not None and self._files is not None:
            self.copy.end_with(on_loss)
            await self._files.bring_keys()

    @asynccontextmanager
    async def following(self, store: Store) -> AsyncIterator[None]:
        """The whole file is copied first, then whatever changes."""
        if self.copy is None or self._files is None:
            yield
            return
        await self.copy.begin(store)
        crew = self.copy.crew()
        crew.keep(self.copy.keep_small)
        crew.keep(self._files.run)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await crew.close()
                await self._files.finish()


@asynccontextmanager
async def standing_by(
    config: Config, ports: Ports, log: Callable[..., None], environ: Mapping[str, str]
) -> AsyncIterator[Standby]:
    """Have the copy's place, or do not start. ``environ`` has the keys of a store of objects.

    Raises: Misconfigured
    """
    if not config.standby.path:
        yield Standby(None, None, None)
        return
    files = ports.files
    machine = machine_of(config.store.path, files, ports.ids)
    place = copy_place(config, config.standby.path, environ)
    standby, root = _fitted(config, ports, log, machine.name, place), place.root
    assert standby.copy is not None, "it has just been made"
    with _alone(config.store.path) as mark:
        copied = machine.mark not in ("", mark)
        await standby.copy.claim(machine.root == root, copied=copied)
        remember(KnownMachine(machine.name, root, mark), config.store.path, files)
        log("standby.held", **_told(standby.copy.state()))
        try:
            yield standby
        finally:
            with anyio.CancelScope(shield=True):
                await standby.copy.close()


@contextmanager
def _alone(path: str) -> Iterator[str]:
    """The token is this machine's, so a second process here would take it for its own, and give it
    back when it finds that the file is in use. Its lock outlasts that of the file, and its mark is
    that of this folder.

    Raises: Misconfigured"""
    place = f"{os.path.abspath(path)}{NAME}"
    lock = ProcessLock(place)
    try:
        yield mark_of(f"{place}.lock")
    finally:
        lock.release()


def copy_place(config: Config, named: str, environ: Mapping[str, str]) -> CopyPlace:
    """The place of the copy: a folder, or a store of objects by the means of ``[objects]``.

    Raises: Misconfigured
    """
    if not named.startswith(FAR):
        return FolderPlace(named)
    bucket, _, prefix = named.removeprefix(FAR).partition("/")
    prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    patient = replace(object_terms(config.objects), bucket=bucket, prefix=prefix)
    quick_s = min(config.standby.lease / QUICKER, patient.timeout_s)
    quick = replace(patient, timeout_s=quick_s)
    return ShelfPlace(*(StandbyShelf(ObjectStore(terms, environ)) for terms in (patient, quick)))


def _fitted(
    config: Config, ports: Ports, log: Callable[..., None], holder: str, place: CopyPlace
) -> Standby:
    path = config.store.path
    terms = StandbyTerms(place.root, config.standby.lag, config.standby.lease)
    lease = Lease(place.tokens, holder, terms.lease_s, since_boot, end_after)
    tap = Tap(path, since_boot, ports.clock.now)
    places = StandbyPlaces(lease, place.lines, tap)
    copy = StandbyCopy(
        terms, places, ports.clock, since_boot, ports.children, log, config.store.wal_max
    )
    files = StandbyFiles(copy, place, path, config.store.assets, ports.clock, ports.children, log)
    return Standby(copy, files, tap)


def known_machine(path: str) -> KnownMachine | None:
    """The machine that this file belongs to; None for one that never had a token.

    Raises: Misconfigured
    """
    place = f"{os.path.abspath(path)}{NAME}"
    try:
        name, root, mark = f"{SystemFiles().read(place).decode()}\n\n\n".split("\n")[:3]
        return KnownMachine(name, root, mark)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{place} cannot be read: {error}") from error


def machine_of(path: str, files: Files, ids: Ids) -> KnownMachine:
    """The machine as the token knows it: its name is made once, and kept beside its file.

    Raises: Misconfigured
    """
    if (known := known_machine(path)) is not None:
        return known
    made = KnownMachine(ids.fresh().replace("-", "")[-NAME_LETTERS:], "")
    remember(made, path, files)
    return made


def remember(machine: KnownMachine, path: str, files: Files) -> None:
    """Raises: Misconfigured"""
    place = f"{os.path.abspath(path)}{NAME}"
    try:
        made_folder(Path(place).parent)
        lines = machine.name, machine.root, machine.mark, ""
        files.write_private(place, "\n".join(lines).encode())
    except OSError as error:
        raise Misconfigured(f"{place} cannot be written: {error}") from error


def _told(state: StandbyState) -> dict[str, Any]:
    return {"path": state.path, "epoch": state.epoch, "lease_s": state.lease_s}
