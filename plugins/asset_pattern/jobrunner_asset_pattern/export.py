"""The stage ``asset.export``: the owner's files in one bundle, with a list of what is in it.

Files are read one by one and each is checked before it is packed; one that is gone or damaged is
left out, and the job ends ``partial`` with an error that names it. Nothing is kept before the
bundle is whole, so an attempt that is cut off leaves nothing, and the next one starts afresh.
"""

import json
import os
import shutil
from typing import Any

from jobrunner import Asset, Done, Partial, PermanentFailure, PlainContext, RetryableFailure, stage
from jobrunner_asset_pattern.bundles import FORMATS, Tar, Zip
from jobrunner_asset_pattern.generation import listed
from jobrunner_asset_pattern.params import Export

BUNDLE = "bundle"
LIBRARY_MAX = 10_000
SPARE = 16 * 1024**2
Ctx = PlainContext[Export]
Entry = dict[str, Any]


@stage("asset.export", file_size=0)
def export(ctx: Ctx) -> Done | Partial:
    wanted = _wanted(ctx)
    ctx.progress(25, f"{len(wanted)} files")
    ending = ctx.params.format
    path = os.path.join(ctx.scratch, f"bundle.{ending}")
    with FORMATS[ending](path) as bundle:
        entries, failed = _packed(ctx, wanted, bundle)
        if ctx.params.manifest:
            bundle.write("manifest.json", _manifest(ctx.params.title, entries, failed))
    if not entries:
        faults = [f"{one['asset']}: {one['error']}" for one in failed]
        text = listed(faults) or "the owner has no such files: upload some first"
        raise PermanentFailure("NOTHING_TO_EXPORT", text)
    ctx.progress(75, "storing the bundle")
    asset = ctx.save(f"{_plain(ctx.params.title) or 'export'}.{ending}", path, asset_type=BUNDLE)
    return _outcome(len(wanted), entries, failed, asset)


def _wanted(ctx: Ctx) -> list[str]:
    """Ids, newest first when all are meant. Bundles are not bundled again unless they are named."""
    if ctx.params.inputs:
        return list(dict.fromkeys(ctx.params.inputs))
    found = ctx.library(limit=LIBRARY_MAX)
    if len(found) == LIBRARY_MAX:
        text = f"the owner has {LIBRARY_MAX:,} files or more: name those that are meant in inputs"
        raise PermanentFailure("TOO_MANY_FILES", text)
    types = set(ctx.params.asset_types)
    meant = [one for one in found if (one.asset_type in types if types else _is_no_bundle(one))]
    _check_room(ctx, sum(asset.file_size or 0 for asset in meant))
    return [asset.id for asset in meant]


def _is_no_bundle(asset: Asset) -> bool:
    return asset.asset_type != BUNDLE


def _check_room(ctx: Ctx, size: int) -> None:
    """Packed here and kept there, so for a moment it is there twice."""
    free = shutil.disk_usage(ctx.scratch).free
    if free < 2 * size + SPARE:
        text = f"{free} bytes of disk are free, and a bundle of {size} bytes needs twice as many"
        raise RetryableFailure("STORAGE_FAILED", text)


def _packed(ctx: Ctx, wanted: list[str], bundle: Zip | Tar) -> tuple[list[Entry], list[Entry]]:
    entries: list[Entry] = []
    failed: list[Entry] = []
    for number, which in enumerate(wanted, 1):
        try:
            _pack(ctx, which, bundle, entries)
        except PermanentFailure as fault:
            failed.append({"asset": which, "error": fault.detail})
        half = number == (len(wanted) + 1) // 2
        ctx.progress(50 if half else 25 + 50 * number // len(wanted))
    return entries, failed


def _pack(ctx: Ctx, which: str, bundle: Zip | Tar, entries: list[Entry]) -> None:
    held = ctx.asset(which)
    if ctx.params.asset_types and held.asset.asset_type not in ctx.params.asset_types:
        return
    entry = _entry(len(entries) + 1, held.asset)
    _check_room(ctx, held.asset.file_size or 0)
    try:
        bundle.add(entry["name"], held.path)
    except FileNotFoundError as error:
        raise PermanentFailure("ASSET_NOT_FOUND", "its file was removed meanwhile") from error
    entries.append(entry)


def _entry(number: int, asset: Asset) -> Entry:
    name = os.path.basename(asset.storage_path) or asset.id
    return {
        "name": f"{number:04d}-{name}",
        "asset_id": asset.id,
        "asset_type": asset.asset_type,
        "file_size": asset.file_size,
        "sha256": asset.sha256,
    }


def _manifest(title: str, entries: list[Entry], failed: list[Entry]) -> bytes:
    told = {"title": title, "files": entries, "missing": failed}
    return json.dumps(told, indent=2, ensure_ascii=False).encode()


def _plain(title: str) -> str:
    kept = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in title)
    return "-".join(part for part in kept.split("-") if part)[:60].rstrip("-")


def _outcome(count: int, entries: list[Entry], failed: list[Entry], asset: Asset) -> Done | Partial:
    result = {"asset_count": len(entries), "bundle": asset.id, "failed": failed}
    if not failed:
        return Done(result=result)
    faults = listed([f"{one['asset'][:200]}: {one['error'][:200]}" for one in failed])
    return Partial(f"{len(failed)} of {count} files are missing: {faults}", result=result)
