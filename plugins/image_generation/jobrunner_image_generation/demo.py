"""The part of this plugin in ``make demo``."""

from jobrunner.testing import Show


async def demo(show: Show) -> None:
    prompt = "a lighthouse by the sea at dusk, with a small boat"
    job = await show.submit(prompt=prompt, size="1024x768", seed=7)
    await show.keep(await show.until(job, "completed"))
