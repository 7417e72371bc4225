"""DESIGN.md is a map of this house: every place on it is there, and what it says of them holds."""

import re
from pathlib import Path, PurePosixPath

import pytest

from tests.house import layout, rules
from tests.house.figures import KERNEL_LINES_MAX, kernel, kernel_lines

ROOT = Path(__file__).resolve().parents[2]
DESIGN = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
TREE = layout.read(ROOT)
CHANGES = (
    "a stored field of a job", "a column to select by", "a guard", "a route",
    "a command of the command line", "a host of stages", "retention", "another store",
    "a dashboard page", "a signature scheme", "a notification event", "a metric",
)  # fmt: skip


def section(heading: str) -> str:
    """The text below a heading, up to the next one of its rank."""
    _, found, below = DESIGN.partition(f"\n## {heading}\n")
    assert found, f"DESIGN.md has no heading {heading!r}"
    return below.partition("\n## ")[0]


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def quoted(text: str) -> list[str]:
    """All that stands in backquotes, but for whole blocks of commands."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def places(text: str) -> list[str]:
    """Those of them that are paths."""
    return [one for one in quoted(text) if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)*(?:/|\.\w+)", one)]


def is_there(place: str) -> bool:
    return (ROOT / place).exists() or (ROOT / "jobrunner" / place).exists()


def of_the_house(text: str) -> list[str]:
    """Paths of modules, folders and texts; a name with a dot may be many other things."""
    return [one for one in places(text) if one.endswith(("/", ".py", ".md", ".txt", ".sql"))]


def test_every_place_is_there() -> None:
    assert [place for place in of_the_house(DESIGN) if not is_there(place)] == []


def test_a_place_that_is_gone_is_found() -> None:
    text = "```sh\nls\n```\n`core/job.py` and `core/forgotten.py`, `tests/none/`, `/readyz`, `a.b`"
    gone = [place for place in of_the_house(text) if not is_there(place)]
    assert gone == ["core/forgotten.py", "tests/none/"]


def test_every_feature_is_found_by_its_name() -> None:
    listed = [quoted(row[0])[0] for row in rows("Find a feature")]
    assert listed == sorted(listed)
    assert set(listed) == layout.FEATURES
    named = {path.stem for path in layout.modules(TREE)}
    named |= {path.parent.name for path in layout.modules(TREE)}
    assert [word for word in listed if word not in named] == []


def test_the_rooms_are_those_that_the_rules_know() -> None:
    listed = {quoted(row[0])[0] for row in rows("Rooms")}
    assert listed == set(rules.MAY_IMPORT) - {"", "__main__"}
    inside = {path.parts[1].removesuffix(".py") for path in layout.modules(TREE)}
    assert listed == inside - {"__init__", "__main__"}


@pytest.mark.parametrize("row", rows("Rooms"), ids=lambda row: row[0])
def test_a_room_may_import_what_the_rules_allow(row: list[str]) -> None:
    order = [quoted(other[0])[0] for other in rows("Rooms")]
    name, allowed = quoted(row[0])[0], rules.MAY_IMPORT[quoted(row[0])[0]] - {""}
    above = set(order[: order.index(name)])
    assert allowed <= above, "imports go down the table"
    if row[2] == "all above":
        assert above <= allowed
    elif row[2].startswith("all above but"):
        assert above - allowed == set(quoted(row[2]))
    else:
        assert allowed == set(quoted(row[2]))


def test_the_kernel_is_there_and_small() -> None:
    listed = kernel(DESIGN)
    assert len(listed) == len(set(listed)) > 20
    assert [str(path) for path in listed if path not in TREE] == []
    assert kernel_lines(TREE, DESIGN) <= KERNEL_LINES_MAX


def test_every_change_has_its_places() -> None:
    changes = rows("To change X, go to Y")
    assert tuple(row[0] for row in changes) == CHANGES
    for _, place, more in changes:
        assert of_the_house(place), place
        assert of_the_house(more) or quoted(more), more


def test_what_stands_beside_a_path_is_in_it() -> None:
    """``core/x.py`` (``Name``): the name is in that file."""
    for place, name in re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", DESIGN):
        text = TREE[PurePosixPath("jobrunner", place)]
        assert re.search(rf"\b{name}\b", text), f"{name} is not in {place}"


def test_what_it_tells_to_find_is_found() -> None:
    (pattern,) = re.findall(r"^find \. -name '([^']+)'", DESIGN, re.MULTILINE)
    found = sorted((ROOT / "jobrunner").rglob(pattern))
    assert len({path.relative_to(ROOT / "jobrunner").parts[0] for path in found}) >= 4


def test_each_decided_rule_stands_once() -> None:
    rules = re.findall(r"^\*\*([A-Z][^*]*\.)\*\*", DESIGN, re.MULTILINE)
    assert len(rules) > 50
    assert sorted({rule for rule in rules if rules.count(rule) > 1}) == []
