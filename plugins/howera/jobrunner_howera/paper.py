"""The draft as a PDF: each step with its picture beside its text, and no page that is empty for a
third of it.

How large the pictures are decides where pages end. So a few widths are tried, the usual one first,
and the first is taken that leaves little paper unused. People's words are strings of the
typesetter's own language.
"""

import json
import os
from typing import Any

from msgspec import Struct

from jobrunner import PermanentFailure
from jobrunner_howera.drafts import (
    Draft,
    Images,
    language_of,
    pictures_of,
    steps_of,
    title_of,
    when_of,
)

JOINERS = "\u200c\u200d"  # invisible, and part of words and of some emoji
TOGETHER_MAX = 1500
WIDTHS_MM = (80, 76, 84, 72, 88, 68, 92, 64, 96, 60, 100, 104, 108)
FURTHER_MM = 80
TRIED_STEPS_MAX = 40
PAGE_MM, MARGIN_MM = 297.0, 20.0
LITTLE = 0.15


class Place(Struct, frozen=True):
    """Where a step ends."""

    page: int
    y_mm: float


def document(draft: Draft, images: Images, folder: str) -> str:
    """A PDF; its path. The typesetter sees the files of this folder and no others."""
    import typst

    source, target = (os.path.join(folder, f"instruction.{end}") for end in ("typ", "pdf"))
    try:
        _written(source, draft, images, _width_mm(source, draft, images, folder))
        typst.compile(source, output=target, root=folder)
    except typst.TypstError as error:
        text = "the draft cannot be typeset; MD_ZIP exports it as it is"
        raise PermanentFailure("TYPESETTING", text, excerpt=str(error)) from error
    return target


def _width_mm(source: str, draft: Draft, images: Images, folder: str) -> int:
    """The first of the widths that leaves little unused, else the one that leaves least."""
    import typst

    if not images or len(steps_of(draft)) > TRIED_STEPS_MAX:
        return WIDTHS_MM[0]
    found = {}
    for width_mm in WIDTHS_MM:
        _written(source, draft, images, width_mm)
        told = typst.query(source, "<end>", field="value", root=folder)
        found[width_mm] = unused([Place(one["page"], one["y"]) for one in json.loads(told)])
        if found[width_mm] <= LITTLE:
            return width_mm
    return min(found, key=lambda one: found[one])


def unused(ends: list[Place]) -> float:
    """The share of paper that lies below what ends there last: of all pages together, or of the
    worst of those before the last if that is more. A page on which nothing ends is full."""
    room_mm = PAGE_MM - 2 * MARGIN_MM
    used_mm = {place.page: 0.0 for place in ends}
    for place in ends:
        used_mm[place.page] = max(used_mm[place.page], place.y_mm - MARGIN_MM)
    empty = {page: max(1 - used / room_mm, 0) for page, used in used_mm.items()}
    last = max(empty, default=1)
    return max([sum(empty.values()) / last, *(empty[page] for page in empty if page < last)])


def _written(source: str, draft: Draft, images: Images, width_mm: int) -> None:
    with open(source, "w", encoding="utf-8") as file:
        file.write(_typeset(draft, images, width_mm))


def _typeset(draft: Draft, images: Images, width_mm: int) -> str:
    title = _text(title_of(draft))
    steps = enumerate(steps_of(draft), 1)
    parts = [
        f"#set document(title: {title}, description: {_text(_described(draft))}, date: none)",
        f"#set text(size: 10.5pt, lang: {_text(language_of(draft))})",
        HEAD,
        f"#text(size: 20pt, weight: 700, fill: ink, {title})",
        "#v(4pt)",
    ]
    return "\n".join(
        [*parts, *(_section(number, step, images, width_mm) for number, step in steps)]
    )


def _described(draft: Draft) -> str:
    return "; ".join(str(step.get("title") or "") for step in steps_of(draft))[:1000]


def _section(number: int, step: dict[str, Any], images: Images, width_mm: int) -> str:
    """A step, kept on one page where it is short enough for that."""
    text = str(step.get("text") or "")
    label = _text(f"{number}. {step.get('title') or ''}")
    title = f"#text(size: 13pt, weight: 600, fill: ink, {label})"
    times = f"#text(size: 9pt, fill: faint, {_text(when_of(step))})"
    paths = [images[address] for address in pictures_of(step) if address in images]
    together = "false" if len(text) <= TOGETHER_MAX and len(paths) < 4 else "true"
    parts = [
        f"#block(breakable: {together}, width: 100%, above: 14pt)[",
        f"#block(sticky: true)[{title} #h(1fr) {times}]",
        _beside(paths[0], text, width_mm) if paths else _paragraphs(text),
        _further(paths[1:]),
        END,
        "]",
    ]
    return "\n".join(part for part in parts if part)


def _beside(path: str, text: str, width_mm: int) -> str:
    """The picture at the left, the words at the right of it."""
    return (
        f"#grid(columns: ({width_mm}mm, 1fr), column-gutter: 6mm, {_image(path, width_mm)},"
        f" [\n{_paragraphs(text)}\n])"
    )


def _further(paths: list[str]) -> str:
    """Pictures that the film shows later in the step, two in a row."""
    if not paths:
        return ""
    cells = ", ".join(_image(path, FURTHER_MM) for path in paths)
    return f"#grid(columns: (1fr, 1fr), gutter: 6mm, {cells})"


def _image(path: str, width_mm: int) -> str:
    return f"shown({_text(os.path.basename(path))}, {width_mm}mm, {width_mm * 1.2:.0f}mm)"


def _paragraphs(text: str) -> str:
    return "\n".join(_paragraph(line) for line in text.split("\n"))


def _paragraph(line: str) -> str:
    if line.startswith("- "):
        return f"#list(text({_text(line[2:])}))"
    return f"#par(text({_text(line)}))" if line.strip() else ""


def _text(value: object) -> str:
    """A string of the typesetter's language; nothing in it is markup."""
    plain = "".join(sign if sign.isprintable() or sign in JOINERS else " " for sign in str(value))
    return json.dumps(plain, ensure_ascii=False)


END = "#context [#metadata((page: here().page(), y: here().position().y.mm())) <end>]"
HEAD = """\
#set page(paper: "a4", margin: (x: 22mm, y: 20mm), numbering: "1 / 1")
#set par(leading: 0.68em)
#let ink = rgb("#1d3b53")
#let faint = rgb("#7b8794")
#let shown(path, width, height) = context {
  let size = measure(image(path, width: width))
  if size.height > height { image(path, height: height) } else { image(path, width: width) }
}
"""
