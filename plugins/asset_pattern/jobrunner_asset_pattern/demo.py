"""The part of this plugin in ``make demo``: pictures made smaller, then all in one bundle."""

from PIL import Image, ImageDraw

from jobrunner.testing import Show


async def demo(show: Show) -> None:
    ids = []
    for number, colour in enumerate(("#2a6fb0", "#c8553d", "#588157"), 1):
        path = show.scratch / f"picture-{number}.png"
        picture = Image.new("RGB", (1200, 800), colour)
        pen = ImageDraw.Draw(picture)
        pen.ellipse((120 * number, 140, 120 * number + 520, 660), fill="#f2e9e4")
        picture.save(path)
        ids.append((await show.shelve(path))["id"])
    job = await show.submit("generation", inputs=ids, sizes=[256, 640], format="webp")
    await show.keep(await show.until(job, "completed", "partial"))
    job = await show.submit("export", title="Demo pictures", asset_types=["thumbnail"])
    await show.keep(await show.until(job, "completed"))
