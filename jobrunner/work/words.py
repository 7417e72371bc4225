"""The words in which a stage's end and what it made are told to the service."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import asdict

from jobrunner.core.job import Asset
from jobrunner.core.messages import Ended, Report

NUMBERED = re.compile(r"-[0-9]+((?:\.[^.]{0,10})?)\Z")


def outcome_of(ended: Ended, key: str) -> dict[str, Any]:
    """Say how the stage ended, under an id of this once."""
    said: dict[str, Any] = {"id": key, "outcome": ended.outcome, "log": list(ended.log)}
    said |= _made(ended.report)
    if ended.report.result is not None:
        said["result"] = ended.report.result
    if ended.report.progress is not None:
        said["progress"] = ended.report.progress
    if ended.report.message is not None:
        said["message"] = ended.report.message
    if ended.failure is not None:
        said["failure"] = asdict(ended.failure)
        del said["failure"]["stage"]
    if ended.awaits:
        key_said = ended.awaits.removeprefix(f"{ended.source}:") if ended.source else ended.awaits
        said |= {"awaits": key_said, "await_s": ended.await_s}
        said |= {"source": ended.source} if ended.source else {}
    return said


def checkpoint_of(made: Report, key: str) -> dict[str, Any]:
    return {"id": key, **_made(made)}


def assets_in(value: Any) -> Iterator[Asset]:
    """Find the files that a kept value speaks of: what ``save`` returned, as JSON has it."""
    if isinstance(value, dict):
        if all(isinstance(value.get(name), str) for name in ("id", "url", "storage_path")):
            kind = str(value.get("asset_type", "file"))
            yield Asset(value["id"], kind, value["url"], value["storage_path"])
        for inner in value.values():
            yield from assets_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from assets_in(inner)


def is_ours(asset: Asset) -> bool:
    """Say whether this is a file of the job's library, and not one that lies elsewhere."""
    return asset.url == f"/assets/{asset.id}/content"


def own_name(path: str) -> str:
    """Name a file as its stage did: without the number that told it apart here, for the service
    gives it one of its own."""
    return NUMBERED.sub(r"\1", path.rpartition("/")[2])


def _made(report: Report) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if report.artifacts:
        said["artifacts"] = report.artifacts
    if report.assets:
        said["assets"] = [_asset(asset) for asset in report.assets]
    return said


def _asset(asset: Asset) -> dict[str, Any]:
    if is_ours(asset):
        return {"id": asset.id, "asset_type": asset.asset_type}
    said = {"asset_type": asset.asset_type, "url": asset.url}
    said |= {"sha256": asset.sha256} if asset.sha256 else {}
    return said | ({"file_size": asset.file_size} if asset.file_size is not None else {})
