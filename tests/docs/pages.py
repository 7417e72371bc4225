"""The texts of the project as tests read them: pages, sections, tables, snippets and anchors."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("*.md", "docs/*.md", "plugins/*/README.md")
TEXTS = sorted(path for kind in KINDS for path in ROOT.glob(kind))


def read(name: str) -> str:
    """One text by its path in the project."""
    return (ROOT / name).read_text(encoding="utf-8")


def label(path: Path) -> str:
    """What a text is called in the names of tests."""
    return str(path.relative_to(ROOT))


def section(name: str, heading: str) -> str:
    """The text below a heading, written with its marks, up to the next one of its rank or above."""
    text = read(name)
    _, _, below = text.partition(f"\n{heading}\n")
    assert below, f"{name} has no heading {heading!r}"
    rank = len(heading.partition(" ")[0])
    return re.split(rf"(?m)^#{{1,{rank}}} ", below)[0]


def rows(name: str, head: str) -> list[list[str]]:
    """The cells of all tables of a text whose first column is called that, without their heads."""
    found: list[list[str]] = []
    inside = False
    for line in read(name).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" |")] if line[:1] == "|" else []
        if not inside and cells and cells[0] == head:
            inside = True
        elif inside and not cells:
            inside = False
        elif inside and not line.startswith("|---"):
            found.append(cells)
    assert found, f"{name} has no table of {head!r}"
    return found


def code(cell: str) -> str:
    """The name in backquotes that a cell begins with."""
    found = re.match(r"`([^`]+)`", cell)
    assert found, f"{cell!r} does not begin with a name in backquotes"
    return found[1]


def snippets(text: str, language: str) -> list[str]:
    """The blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    """A text without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """What a link may name behind ``#``, made of headings as the usual renderers make it."""
    seen: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} (.+)$", prose(text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        seen[slug] = seen.get(slug, -1) + 1
        if seen[slug]:
            seen[f"{slug}-{seen[slug]}"] = 0
    return set(seen)


def links(text: str) -> Iterator[tuple[str, str]]:
    """Where a text leads inside the project: the path (empty: itself) and the anchor (or empty)."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = target.partition("#")
            yield path, anchor
