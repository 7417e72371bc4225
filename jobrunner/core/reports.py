"""What a report brings along: artifacts with versions, files, results, progress.

It is taken in before the edge is walked, so that guards look at the job as it would be.
"""

from typing import Any

from msgspec.structs import replace

from jobrunner.core.brought import fitting
from jobrunner.core.consulting import sifted
from jobrunner.core.draft import Draft
from jobrunner.core.job import Artifact, Asset
from jobrunner.core.messages import Report
from jobrunner.core.moves import question
from jobrunner.core.shelving import shelved


def apply_report(draft: Draft, report: Report) -> None:
    """Only what is given is written; nothing that is missing clears anything. What has no form
    that the workflow knows is not there."""
    draft.report = fitting(draft, report)
    report = _sifted(draft, draft.report)
    add_artifacts(draft, report.artifacts, files=report.assets)
    _add_assets(draft, report)
    _decide_changes(draft, report)
    changes: dict[str, Any] = {}
    if report.progress is not None:
        changes["progress"] = report.progress
    if report.message is not None:
        changes["progress_message"] = report.message
    if changes:
        draft.set(**changes)


def _decide_changes(draft: Draft, report: Report) -> None:
    """More than progress: whoever has seen this version has not seen these."""
    changes: dict[str, Any] = {}
    if report.result is not None and report.result != draft.job.result:
        changes["result"] = report.result
    if report.correlation_id and report.correlation_id != draft.job.correlation_id:
        changes["correlation_id"] = report.correlation_id
    if changes:
        draft.decide(**changes)


def _sifted(draft: Draft, report: Report) -> Report:
    sift = draft.state.sift
    if sift is None:
        return report
    return sifted(sift, question(draft))


def add_artifacts(
    draft: Draft, values: dict[str, Any], always: bool = False, files: tuple[Asset, ...] = ()
) -> None:
    """A new value is a new version; the same value again is none, unless a person saved it. A value
    that is the address of a file of the same report stands for that file."""
    addresses = {asset.url: asset.id for asset in files}
    for name, value in values.items():
        current = draft.job.artifacts.get(name)
        if value is None or (current is not None and current.value == value and not always):
            continue
        artifact = Artifact(
            name,
            current.version + 1 if current else 1,
            value,
            draft.now,
            draft.actor.name,
            draft.job.run_id,
            addresses.get(value, "") if isinstance(value, str) else "",
        )
        draft.artifacts.append(artifact)
        draft.decide(artifacts={**draft.job.artifacts, name: artifact})


def _add_assets(draft: Draft, report: Report) -> None:
    folder = draft.definition.workflow.folder
    for reported in report.assets:
        asset = shelved(reported, draft.job, folder)
        asset = asset if asset.created_at else replace(asset, created_at=draft.now)
        draft.assets.append(asset)
        counts = draft.job.asset_types
        known = counts.get(asset.asset_type, 0)
        draft.decide(asset_types={**counts, asset.asset_type: known + 1}, asset_url=asset.url)
        draft.log("asset.created", asset_id=asset.id, asset_type=asset.asset_type)
