"""The part of this plugin in ``make demo``: an advertisement, ordered from the built-in
provider."""

from jobrunner.testing import Show

LAMP = {
    "name": "Lumen Desk Lamp",
    "brand": "Lumen",
    "description": "A lamp for people who read late.",
    "features": ["Warm light that dims by touch", "A USB-C port in its base", "Folds flat"],
    "price": "59 EUR",
}


async def demo(show: Show) -> None:
    job = await show.submit(
        "static_ad", product_id="lamp-7", product=LAMP, style="product_hero", aspect_ratio="4:5"
    )
    await show.keep(await show.until(job, "completed"))
