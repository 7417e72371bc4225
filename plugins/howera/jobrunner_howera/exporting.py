"""The stage ``howera.export``: the draft as a document, or as Markdown with its pictures.

People's words go into both as text and as nothing else: in the document they are strings of the
typesetter's own language, in Markdown whatever would be markup is escaped.
"""

import os
import re
import zipfile
from typing import Any

from jobrunner import Done, PermanentFailure, PlainContext, stage
from jobrunner_howera.drafts import (
    Draft,
    Images,
    file_name_of,
    pictures_of,
    steps_of,
    title_of,
    when_of,
)
from jobrunner_howera.paper import document

MIB = 1024 * 1024
EPOCH = (1980, 1, 1, 0, 0, 0)
MARKUP = re.compile(r"([\\`*_{}\[\]<>#+!|~&])")
LINE_START = re.compile(r"^(\d{1,9}(?=[.)])|)([-=.)])")
MISSING_TOLD = 20
PICTURES_MAX = 1_000


@stage("howera.export", memory=4096 * MIB)
def export(ctx: PlainContext) -> Done:
    order = ctx.artifacts.get("export_request")
    wanted = order.get("format") if isinstance(order, dict) else None
    draft = _draft(ctx, order if isinstance(order, dict) else {})
    ctx.progress(10, "gathering the pictures")
    images, missing = _images(ctx, draft)
    ctx.progress(50, "typesetting")
    stored: dict[str, str] = {}
    for kind in wanted if isinstance(wanted, list) else [wanted]:
        stored[str(kind)] = _made(ctx, str(kind), draft, images, first=not stored)
    if missing:
        ctx.progress(95, f"{len(missing)} pictures are gone or cannot be read")
    known = {"format": wanted, "steps": len(steps_of(draft)), "pictures": len(images)}
    return Done(
        result={**known, "pictures_missing": missing[:MISSING_TOLD]}, artifacts={"exports": stored}
    )


def _made(ctx: PlainContext, kind: str, draft: Draft, images: Images, *, first: bool) -> str:
    """The address of the file; the first of several is what ``export_uri`` names."""
    made = (document if kind == "PDF" else bundle)(draft, images, ctx.scratch)
    name = file_name_of(draft) + os.path.splitext(made)[1]
    artifact = "export_uri" if first else ""
    return ctx.save(name, made, asset_type="export", artifact=artifact).url


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


def _markdown(draft: Draft, images: Images) -> str:
    lines = [f"# {_escaped(title_of(draft))}", ""]
    for number, step in enumerate(steps_of(draft), 1):
        lines += [f"## {number}. {_escaped(step.get('title') or '')}", ""]
        if when := when_of(step):
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
