"""docs/performance.md names the works, settings and figures that there are."""

import re

from msgspec.structs import fields

from jobrunner.bench.report import FIGURES
from jobrunner.bench.suite import WORKS
from jobrunner.config.settings import Config
from tests.docs.pages import code, read, rows

TEXT = read("docs/performance.md")


def first_cells(heading: str) -> list[str]:
    """The names in backquotes that the rows of a section's first table begin with."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_every_work_is_told() -> None:
    assert first_cells("Measure your own machine") == list(WORKS)


def test_every_setting_is_one() -> None:
    named = set(re.findall(r"`(\w+)\.(\w+)`", TEXT)) - {("service", "starting")}
    sections = {section.name: section.type for section in fields(Config)}
    known = {(name, key.name) for name, of in sections.items() if hasattr(of, "__struct_fields__")
             for key in fields(of)}  # fmt: skip
    assert len(named) > 4
    assert named <= known


def test_every_metric_is_one() -> None:
    named = set(re.findall(r"`(jobrunner_\w+)`", TEXT))
    assert named
    assert named <= {code(row[0]) for row in rows("docs/monitoring.md", "metric")}


def test_the_columns_that_are_explained_are_printed() -> None:
    explained = {"CPU ms", "of it loop", "client busy", "others"}
    assert explained <= set(FIGURES.values())
    assert all(f"`{column}`" in TEXT for column in explained)


def test_the_run_that_is_told_is_of_works_that_there_are() -> None:
    told = TEXT.partition("\n### A run\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE)
    assert set(rows) == {"W1", "W2", "W2t", "W3"} <= set(WORKS)
