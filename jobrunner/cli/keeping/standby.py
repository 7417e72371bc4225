"""``standby``: the other machine, which follows a copy and takes over from it."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from jobrunner.cli.frame.options import Flag, Where
from jobrunner.cli.frame.system import clock, ids
from jobrunner.errors import Misconfigured, StorageError

if TYPE_CHECKING:
    from jobrunner.actors.keeping.standby.taking_over import Followed, StandbyFollower
    from jobrunner.config.settings import Config
    from jobrunner.files.standby.places import CopyPlace
    from jobrunner.store.keeping.restoring import Renaming

LOOK_EVERY_S = 0.5
READY, REPLACED = ".ready", ".replaced-"


class StandbyOrder(Struct, frozen=True):
    """The order: for these settings, from this place."""

    config: "Config"
    copy: "CopyPlace"
    accept_loss: bool


def standby(
    folder: str | None = None,
    /,
    *,
    take_over: Flag = False,
    serve: Flag = False,
    accept_loss: Flag = False,
    where: Where = Where(),
) -> None:
    """Follow the copy in FOLDER, or in that of [standby] path, until told to stop; or take over.

    It may be in a store of objects, too: s3://BUCKET/PREFIX.

    Parameters
    ----------
    take_over
        Be the one who serves: the other machine is fenced first, then what it has copied is put in
        place here.
    serve
        After a take-over, begin to serve at once.
    accept_loss
        Take over also where the copy is damaged: what comes behind the damage is lost.
    """
    from jobrunner.standing_by import copy_place

    config = where.load()
    if not (named := folder or config.standby.path):
        raise Misconfigured("name the folder of the copy, or set [standby] path")
    wanted = StandbyOrder(config, copy_place(config, named, os.environ), accept_loss)
    if not take_over:
        anyio.run(_follow, wanted)
        return
    os.umask(0o077)
    anyio.run(_take_over, wanted)
    if serve:
        from jobrunner.cli.serve import serve as serve_from_here

        serve_from_here(where=where)


async def _follow(wanted: StandbyOrder) -> None:
    """Follow until a signal says stop, or somebody takes over."""
    from jobrunner.ports import SystemSignals
    from jobrunner.store.opening import lock_process

    lock = lock_process(wanted.config.store.path, "standby")
    print(f"following the copy in {wanted.copy.root}", flush=True)
    try:
        async with SystemSignals().stops() as stops, anyio.create_task_group() as group:

            async def until_told() -> None:
                await anext(stops)
                group.cancel_scope.cancel()

            group.start_soon(until_told)
            follower, told = _follower(wanted), _Told()
            while not _is_taken(wanted.copy.tokens):
                told.of(await anyio.to_thread.run_sync(_one_look, follower))
                await clock.sleep(LOOK_EVERY_S)
            print("somebody takes over: this follower makes way", flush=True)
            group.cancel_scope.cancel()
    finally:
        lock.release()


class _Told:
    """Says what has changed, and nothing twice."""

    def __init__(self) -> None:
        self._line: object = None
        self._fault = ""

    def of(self, found: "Followed") -> None:
        from jobrunner.core.instants import text_of

        if found.reached is not None and found.reached.line != self._line:
            self._line = found.reached.line
            as_of = text_of(found.reached.as_of)
            print(f"follows {found.reached.line.name}, as of {as_of}", flush=True)
        if found.fault != self._fault:
            print(found.fault or "goes on", flush=True)
        self._fault = found.fault


def _one_look(follower: "StandbyFollower") -> "Followed":
    found = follower.follow()
    if found.reached is not None and not found.fault:
        follower.files()
    return found


def _is_taken(place: "object") -> bool:
    try:
        token = place.find()  # type: ignore[attr-defined]
    except (OSError, StorageError):
        return False
    return token is not None and token.standing == "taken"


async def _take_over(wanted: StandbyOrder) -> None:
    """Fence the other one, wait until it knows, take what it has copied, and be the one."""
    from jobrunner.actors.keeping.standby.taking_over import TakingOver
    from jobrunner.ports import SystemFiles, since_boot
    from jobrunner.standing_by import KnownMachine, machine_of, remember
    from jobrunner.store.opening import lock_patiently

    path = wanted.config.store.path
    os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
    name = machine_of(path, SystemFiles(), ids).name
    token = TakingOver(wanted.copy.tokens, name, since_boot)
    began = since_boot()
    if token.take() == "ours":
        print(f"{wanted.copy.root} is held by this machine already: `jobrunner serve` goes on here")
        return
    print(
        f"nobody else serves from here on; waiting {token.wait_s:.1f} s until the other one knows"
    )
    lock = await lock_patiently(path, "standby", clock, lambda text: print(text, flush=True))
    try:
        follower = _follower(wanted)
        follower.follow()
        await clock.sleep(token.wait_s)
        _put_in_place(wanted, follower, follower.follow())
    finally:
        lock.release()
    token.finish()
    remember(KnownMachine(name, wanted.copy.root), path, SystemFiles())
    print(f"took over in {since_boot() - began:.1f} s: this machine serves from now on", flush=True)


def _follower(wanted: StandbyOrder) -> "StandbyFollower":
    from jobrunner.actors.keeping.standby.taking_over import StandbyFollower

    config = wanted.config
    return StandbyFollower(wanted.copy, config.store.path, os.path.abspath(config.store.assets))


def _put_in_place(wanted: StandbyOrder, follower: "StandbyFollower", found: "Followed") -> None:
    """Raises: StorageError, before anything is changed, when the copy is not whole"""
    from jobrunner.core.instants import text_of
    from jobrunner.core.keeping.backups import Lost
    from jobrunner.store.fsck import check_copy
    from jobrunner.store.keeping.restoring import (
        RestorePlan,
        decide_restore,
        finish_restore,
        make_ready,
    )

    reached = found.reached
    if reached is None:
        raise StorageError(
            f"{wanted.copy.root} holds no whole copy: {found.fault or 'there is no base'}"
        )
    if found.fault and not wanted.accept_loss:
        raise StorageError(
            f"{found.fault}; with --accept-loss the copy is taken as of {text_of(reached.as_of)}, "
            "and what comes after is lost"
        )
    if faults := list(check_copy(follower.place)):
        raise StorageError(f"the copy is damaged: {faults[0]}")
    absent, now = follower.all_files(), max(clock.now(), reached.as_of)
    name = f"the copy in {wanted.copy.root}, line {reached.line.name}, change {reached.number}"
    follower.done()  # what is cut off from here on begins anew with the base
    make_ready(follower.place, name, reached.as_of, now, Lost())
    moment = text_of(now).replace(":", "")
    plan = RestorePlan(name, tuple(_moves(wanted, follower.place, moment)))
    path = os.path.abspath(wanted.config.store.path)
    decide_restore(path, plan)
    finish_restore(path)
    shutil.rmtree(f"{path}{READY}", ignore_errors=True)
    print(
        f"the copy is taken as of {text_of(reached.as_of)}: what was acknowledged after it is lost"
    )
    if absent:
        print(f"{len(absent)} files were not copied yet, the first is {absent[0]}")


def _moves(wanted: StandbyOrder, copy: str, moment: str) -> Iterator["Renaming"]:
    from jobrunner.files.stored_backups import BESIDE
    from jobrunner.store.keeping.restoring import Renaming

    path = os.path.abspath(wanted.config.store.path)
    folder, ready = os.path.dirname(path), f"{path}{READY}"
    wanted.copy.fetch_beside(ready)
    own = [name for name in BESIDE if os.path.exists(os.path.join(ready, name))]
    old = [f"{path}{end}" for end in ("", "-wal", "-shm")] + [f"{folder}/{name}" for name in own]
    for place in old:
        if os.path.lexists(place):
            yield Renaming(place, f"{place}{REPLACED}{moment}", aside=True)
    yield Renaming(copy, path)
    for name in own:
        yield Renaming(os.path.join(ready, name), os.path.join(folder, name))
