"""Files on their way to the service and back: with a bar, going on after a break."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from jobrunner.cli.frame.service import RunningService
from jobrunner.errors import Refused

Drawn = Callable[[int, int], None]


async def sent(running: RunningService, file: Path, job_id: str = "", upload: str = "") -> str:
    """Send a file for a job, or before there is one, and name the asset that it became."""
    try:
        size = file.stat().st_size
        data = file.open("rb")
    except OSError as error:
        raise Refused("VALIDATION_ERROR", f"{file} cannot be read: {error.strerror}") from error
    with data, _drawn(file.name, size) as draw:
        asset = await running.client.upload(
            data, name=file.name, job_id=job_id or None, slot=upload, on_progress=draw
        )
    return asset.id


async def fetched(running: RunningService, asset_id: str, draft: Path, size: int | None) -> None:
    """Fetch all of it, behind what is there of it already. Where nobody noted its size, an answer
    that came to its end is the whole of it, and nothing of an earlier one is kept."""
    with draft.open("ab") as file, _drawn(draft.stem, size) as draw:
        start = 0 if size is None else file.tell()
        if size is None or start < size:
            await running.client.download(asset_id, file, start=start, on_progress=draw)


@contextmanager
def _drawn(name: str, size: int | None) -> Iterator[Drawn]:
    """A bar on stderr, where that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    quiet = not console.is_terminal
    speed = TransferSpeedColumn()
    with Progress(*columns, speed, console=console, transient=True, disable=quiet) as bars:
        bar = bars.add_task(name.replace("[", r"\["), total=size)
        yield lambda done, _: bars.update(bar, completed=done)
