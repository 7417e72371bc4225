"""A process that commits until it is killed, and says a number after each commit it was told of."""

import sys
from pathlib import Path

import anyio

from tests.store.factory import job, moved, opened, priced, stored


async def commit_for_ever(folder: Path, first: int) -> None:
    async with opened(folder, initial_credits=1_000_000) as store:
        print("open", flush=True)
        async with anyio.create_task_group() as group:
            for lane in range(8):
                group.start_soon(_lane, store, first + lane)


async def _lane(store, number: int) -> None:  # type: ignore[no-untyped-def]
    while True:
        born = await stored(store, priced(number, user_id=job(number % 5).user_id))
        print("born", number, flush=True)
        await stored(store, moved(born, "done", money="capture", credits="captured"))
        print("done", number, flush=True)
        number += 8


if __name__ == "__main__":
    anyio.run(commit_for_ever, Path(sys.argv[1]), int(sys.argv[2]))
