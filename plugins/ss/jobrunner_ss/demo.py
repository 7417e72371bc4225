"""The part of this plugin in ``make demo``: a small table, a question, and the agreed analysis."""

import math

from jobrunner.testing import Show

QUESTION = "What is the effect of price, visitors, region and weekend on the sales?"
DAYS = 240


async def demo(show: Show) -> None:
    table = show.scratch / "sales.csv"
    table.write_text(_table(), encoding="utf-8")
    job = await show.submit(requirement=QUESTION)
    job = await show.upload(job, table)
    job = await show.until(await show.command(job, "draft"), "draft_ready")
    job = await show.command(job, "confirm", confirmed=True)
    await show.keep(await show.until(job, "succeeded"))


def _table() -> str:
    """Made by rule, with a known answer: each unit of price costs three sales."""
    lines = ["price,visitors,region,weekend,sales"]
    for day in range(DAYS):
        price = 5 + 15 * (0.5 + 0.5 * math.sin(day * 1.7))
        visitors = 50 + (day * 37) % 400
        region = ("north", "south", "east")[day % 3]
        weekend = "yes" if day % 7 > 4 else "no"
        noise = 12 * math.sin(day * 12.9898) * math.cos(day * 4.1414)
        sales = 100 - 3 * price + 0.2 * visitors + 12 * (region == "south") + noise
        sales += 20 * (weekend == "yes")
        lines.append(f"{price:.2f},{visitors},{region},{weekend},{sales:.1f}")
    return "\n".join(lines) + "\n"
