"""The stage ``howera.export``: the draft as a document, or as Markdown with its pictures.

People's words go into both as text and as nothing else: in the document they are strings of the
typesetter's own language, in Markdown whatever would be markup is escaped.
"""

import json
import math
import os
import re
import zipfile
from typing import Any

from jobrunner import Done, PermanentFailure, PlainContext, stage

MIB = 1024 * 1024
EPOCH = (1980, 1, 1, 0, 0, 0)
MARKUP = re.compile(r"([\\`*_{}\[\]<>#+!|~&])")
LINE_START = re.compile(r"^(\d{1,9}(?=[.)])|)([-=.)])")
JOINERS = "\u200c\u200d"  # invisible, and part of words and of some emoji
TOGETHER_MAX = 1500
MISSING_TOLD = 20
PICTURES_MAX = 1_000
Draft = dict[str, Any]
Images = dict[str, str]


@stage("howera.export", memory=4096 * MIB)
def export(ctx: PlainContext) -> Done:
    order = ctx.artifacts.get("export_request")
    wanted = order.get("format") if isinstance(order, dict) else None
    draft = _draft(ctx, order if isinstance(order, dict) else {})
    ctx.progress(10, "gathering the pictures")
    images, missing = _images(ctx, draft)
    ctx.progress(50, "typesetting")
    if wanted == "PDF":
        made = document(draft, images, ctx.scratch)
    else:
        made = bundle(draft, images, ctx.scratch)
    name = os.path.basename(made)
    ctx.save(name, made, asset_type="export", artifact="export_uri")
    if missing:
        ctx.progress(95, f"{len(missing)} pictures are gone or cannot be read")
    known = {"format": wanted, "steps": len(steps_of(draft)), "pictures": len(images)}
    return Done(result={**known, "pictures_missing": missing[:MISSING_TOLD]})


def steps_of(draft: Draft) -> list[dict[str, Any]]:
    steps = draft.get("steps")
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def pictures_of(step: dict[str, Any]) -> list[str]:
    """The addresses of its pictures, the first one first."""
    further = step.get("images")
    named = [step.get("image"), *(further if isinstance(further, list) else [])]
    return [one for one in named if isinstance(one, str) and one.startswith("/assets/")]


def document(draft: Draft, images: Images, folder: str) -> str:
    """A PDF; its path. The typesetter sees the files of this folder and no others."""
    import typst

    source, target = (os.path.join(folder, f"instruction.{end}") for end in ("typ", "pdf"))
    with open(source, "w", encoding="utf-8") as file:
        file.write(_typeset(draft, images))
    try:
        typst.compile(source, output=target, root=folder)
    except typst.TypstError as error:
        text = "the draft cannot be typeset; MD_ZIP exports it as it is"
        raise PermanentFailure("TYPESETTING", text, excerpt=str(error)) from error
    return target


def bundle(draft: Draft, images: Images, folder: str) -> str:
    """A zip of the text and its pictures; its path."""
    target = os.path.join(folder, "instruction.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        text = _markdown(draft, images).encode("utf-8", "replace")
        file.writestr(zipfile.ZipInfo("instruction.md", EPOCH), text)
        for path in images.values():
            with open(path, "rb") as picture:
                info = zipfile.ZipInfo(f"images/{os.path.basename(path)}", EPOCH)
                file.writestr(info, picture.read())
    return target


def _draft(ctx: PlainContext, order: dict[str, Any]) -> Draft:
    """In the version that was ordered."""
    version = order.get("version")
    value = ctx.artifacts.get("draft") if version is None else ctx.artifact("draft", int(version))
    if isinstance(value, str):
        return {"title": "Instruction", "steps": [{"id": "text", "title": "", "text": value}]}
    if not isinstance(value, dict):
        raise PermanentFailure("DRAFT_MISSING", "there is no draft to export")
    return value


def _images(ctx: PlainContext, draft: Draft) -> tuple[Images, list[str]]:
    """By the address in the draft, a copy in the scratch folder. A picture that is gone, or is
    none, is left out and told of: the words are what counts."""
    found: Images = {}
    missing: list[str] = []
    every = list(dict.fromkeys(one for step in steps_of(draft) for one in pictures_of(step)))
    for number, address in enumerate(every[:PICTURES_MAX], 1):
        try:
            held = ctx.asset(address)
            found[address] = _picture(held.path, os.path.join(ctx.scratch, f"picture-{number:03d}"))
        except PermanentFailure as fault:
            missing.append(address)
            ctx.log(f"left out {address}: {fault.detail}")
    return found, missing + every[PICTURES_MAX:]


def _picture(path: str, into: str) -> str:
    """A copy that the typesetter can read, small enough for a page."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            ending = "jpg" if picture.format == "JPEG" else "png"
            picture.thumbnail((1600, 1600))
            kept = picture if ending == "png" else picture.convert("RGB")
            kept.save(f"{into}.{ending}")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise PermanentFailure(
            "NO_PICTURE", "it is no picture that can be read", excerpt=str(error)
        ) from error
    return f"{into}.{ending}"


def _typeset(draft: Draft, images: Images) -> str:
    title = _text(draft.get("title") or "Instruction")
    parts = [HEAD, f"#align(center)[#text(size: 20pt, weight: 700, {title})]", "#v(10pt)"]
    parts += [_section(number, step, images) for number, step in enumerate(steps_of(draft), 1)]
    return "\n".join(parts)


def _section(number: int, step: dict[str, Any], images: Images) -> str:
    """A step, kept on one page where it is short enough for that."""
    text = str(step.get("text") or "")
    label = _text(f"{number}. {step.get('title') or ''}")
    title = f"#text(size: 13pt, weight: 600, fill: ink, {label})"
    times = f"#text(size: 9pt, fill: faint, {_text(_when(step))})"
    parts = [f"#block(sticky: true)[{title} #h(1fr) {times}]"]
    parts.extend(_paragraph(line) for line in text.split("\n"))
    paths = [images[address] for address in pictures_of(step) if address in images]
    height = 80 if len(paths) == 1 else 52
    for path in paths:
        name, size = _text(os.path.basename(path)), f"width: 72%, height: {height}mm"
        parts.append(f'#align(center, image({name}, {size}, fit: "contain"))')
    together = "false" if len(text) <= TOGETHER_MAX and len(paths) < 2 else "true"
    return f"#block(breakable: {together})[\n" + "\n".join(parts) + "\n]\n#v(8pt)"


def _paragraph(line: str) -> str:
    if line.startswith("- "):
        return f"#list(text({_text(line[2:])}))"
    return f"#par(text({_text(line)}))" if line.strip() else ""


def _text(value: object) -> str:
    """A string of the typesetter's language; nothing in it is markup."""
    plain = "".join(sign if sign.isprintable() or sign in JOINERS else " " for sign in str(value))
    return json.dumps(plain, ensure_ascii=False)


def _when(step: dict[str, Any]) -> str:
    times = [step.get("start_s"), step.get("end_s")]
    known = [time for time in times if isinstance(time, int | float) and math.isfinite(time)]
    return f"{_clock(known[0])} – {_clock(known[1])}" if len(known) == 2 else ""


def _clock(seconds: float) -> str:
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def _markdown(draft: Draft, images: Images) -> str:
    lines = [f"# {_escaped(draft.get('title') or 'Instruction')}", ""]
    for number, step in enumerate(steps_of(draft), 1):
        lines += [f"## {number}. {_escaped(step.get('title') or '')}", ""]
        if when := _when(step):
            lines += [f"*{when}*", ""]
        paths = [images[address] for address in pictures_of(step) if address in images]
        for path in paths:
            lines += [f"![step {number}](images/{os.path.basename(path)})", ""]
        for line in str(step.get("text") or "").split("\n"):
            mark, rest = ("- ", line[2:]) if line.startswith("- ") else ("", line)
            lines.append(mark + _escaped(rest))
        lines.append("")
    return "\n".join(lines)


def _escaped(value: object) -> str:
    """On one line, so that only its start can be markup beside the signs themselves."""
    plain = MARKUP.sub(r"\\\1", " ".join(str(value).split()))
    return LINE_START.sub(r"\1\\\2", plain)


HEAD = """\
#set page(paper: "a4", margin: (x: 22mm, y: 20mm), numbering: "1 / 1")
#set text(size: 10.5pt, lang: "en")
#set par(justify: true, leading: 0.68em)
#let ink = rgb("#1d3b53")
#let faint = rgb("#7b8794")
"""
