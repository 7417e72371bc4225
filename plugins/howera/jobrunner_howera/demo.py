"""The part of this plugin in ``make demo``: a film with speech becomes an illustrated document."""

from jobrunner.testing import Show
from jobrunner_howera.clip import make


async def demo(show: Show) -> None:
    film = show.scratch / "film.mp4"
    make(str(film))
    job = await show.submit()
    job = await show.upload(job, film)
    job = await show.command(job, "confirm-upload")
    job = await show.until(await show.command(job, "run"), "DRAFT_READY")
    job = await show.command(job, "edit")
    job = await show.command(job, "export", format="PDF")
    await show.keep(await show.until(job, "DONE"))
