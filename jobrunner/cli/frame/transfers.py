"""Files on their way to the service and back: in pieces, with a bar, going on after a break."""

from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from mimetypes import guess_type
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from jobrunner.cli.frame.service import RunningService, part
from jobrunner.cli.frame.system import clock
from jobrunner.errors import JobrunnerError, Refused, Unreachable

BLOCK = 256 * 1024
TUS = {"Tus-Resumable": "1.0.0"}
PIECE = {**TUS, "Content-Type": "application/offset+octet-stream"}
AGAIN_S = (0.2, 1, 2, 5, 10)
PASSING = ("UPLOAD_IN_PROGRESS", "UPLOAD_OFFSET_MISMATCH", "OVERLOADED", "DRAINING")

Drawn = Callable[[int], None]


async def sent(running: RunningService, where: str, file: Path, upload: str = "") -> str:
    """The id of the asset that the file became. A connection that breaks, or a service that starts
    again meanwhile, costs the bytes that were on the line."""
    try:
        size = file.stat().st_size
        data = file.open("rb")
    except OSError as error:
        raise Refused("VALIDATION_ERROR", f"{file} cannot be read: {error.strerror}") from error
    told = {"filename": file.name, "filetype": guess_type(file.name)[0] or "", "upload": upload}
    pairs = [f"{name} {_base64(text)}" for name, text in told.items() if text]
    announced = {**TUS, "Upload-Length": str(size), "Upload-Metadata": ",".join(pairs)}
    with data, _drawn(file.name, size) as draw:
        headers = await running.exchange("POST", where, headers=announced)
        place = f"/uploads/{part(headers['Location'].rpartition('/')[2])}"
        failures = 0
        while True:
            try:
                headers = await running.exchange("HEAD", place, headers=TUS)
                offset = int(headers["Upload-Offset"])
                draw(offset)
                if offset == size:
                    return str(headers["Content-Location"].rpartition("/")[2])
                data.seek(offset)
                piece = {**PIECE, "Upload-Offset": str(offset)}
                body = _blocks(data.read, offset, draw)
                await running.exchange("PATCH", place, headers=piece, body=body)
                failures = 0
            except (Unreachable, Refused) as fault:
                failures = await _or_again(fault, failures)


async def fetched(running: RunningService, path: str, draft: Path, size: int | None) -> None:
    """Fetch all of it, behind what is there of it already. Where nobody noted its size, an answer
    that came to its end is the whole of it, and nothing of an earlier one is kept."""
    failures = 0
    with draft.open("ab") as file, _drawn(draft.stem, size) as draw:
        while size is None or file.tell() < size:
            if size is None:
                file.seek(0)
                file.truncate()
            draw(file.tell())
            try:
                async for block in running.download(path, file.tell()):
                    file.write(block)
                    draw(file.tell())
                if size is None:
                    return
                failures = 0
            except (Unreachable, Refused) as fault:
                failures = await _or_again(fault, failures)


async def _or_again(fault: JobrunnerError, failures: int) -> int:
    """Raises what does not pass, or does not pass in time."""
    passes = isinstance(fault, Unreachable) or getattr(fault, "code", "") in PASSING
    if not passes or failures == len(AGAIN_S):
        raise fault
    await clock.sleep(AGAIN_S[failures])
    return failures + 1


async def _blocks(read: Callable[[int], bytes], offset: int, draw: Drawn) -> AsyncIterator[bytes]:
    while block := read(BLOCK):
        yield block
        offset += len(block)
        draw(offset)


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


@contextmanager
def _drawn(name: str, size: int | None) -> Iterator[Drawn]:
    """A bar on stderr, where that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    quiet = not console.is_terminal
    speed = TransferSpeedColumn()
    with Progress(*columns, speed, console=console, transient=True, disable=quiet) as bars:
        bar = bars.add_task(name.replace("[", r"\["), total=size)
        yield lambda done: bars.update(bar, completed=done)
