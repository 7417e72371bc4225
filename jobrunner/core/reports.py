"""Reports: artifacts with versions, files, results, progress.

It is taken in before the edge is walked, so that guards look at the job as it would be.
"""

import re
from typing import Any

from msgspec.structs import replace

from jobrunner.core.declaration.artifacts import Listed, unlike
from jobrunner.core.declaration.functions import sifted
from jobrunner.core.draft import Draft
from jobrunner.core.job import Artifact, Asset, Snapshot
from jobrunner.core.messages import Checkpoint, Edit, Ended, Move, Report
from jobrunner.core.steps import question
from jobrunner.errors import Refused

NAME_MAX = 100
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
ENDING = re.compile(r"\.[A-Za-z0-9]{1,10}\Z")
PLAIN = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,100}")
NUMBERED = re.compile(r"-[0-9]+\Z")

REPORTING = (Move, Ended, Checkpoint)
FREE_TO = ("stage", "workflow", "admin")


def apply_report(draft: Draft, report: Report) -> None:
    """Write what the report gives; what is missing clears nothing. Values of no form that the
    workflow knows count as missing."""
    draft.report = report = fitting(draft, report)
    if (sift := draft.state.sift) is not None:
        report = sifted(sift, question(draft))
    if report.artifacts:
        add_artifacts(draft, report.artifacts, files=report.assets)
    if report.assets:
        _add_assets(draft, report)
    # More than progress: whoever has seen this version has not seen these.
    if report.result is not None and report.result != draft.job.result:
        draft.decide(result=report.result)
    if report.correlation_id and report.correlation_id != draft.job.correlation_id:
        draft.decide(correlation_id=report.correlation_id)
    if report.progress is not None:
        draft.set(progress=report.progress)
    if report.message is not None:
        draft.set(progress_message=report.message)


def add_artifacts(
    draft: Draft, values: dict[str, Any], always: bool = False, files: tuple[Asset, ...] = ()
) -> None:
    """Add a new value as a new version; the same value again adds none, unless a person saved it. A
    value that is the address of a file of the same report stands for that file."""
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
        draft.artifacts += (artifact,)
        draft.decide(artifacts={**draft.job.artifacts, name: artifact})


def _add_assets(draft: Draft, report: Report) -> None:
    folder = draft.definition.workflow.folder
    for reported in report.assets:
        asset = shelved(reported, draft.job, folder)
        asset = asset if asset.created_at else replace(asset, created_at=draft.now)
        draft.assets += (asset,)
        counts = draft.job.asset_types
        known = counts.get(asset.asset_type, 0)
        draft.decide(asset_types={**counts, asset.asset_type: known + 1}, asset_url=asset.url)
        draft.log("asset.created", asset_id=asset.id, asset_type=asset.asset_type)


def fitting(draft: Draft, report: Report) -> Report:
    """Return the report without what has a wrong form; ``draft.unfit`` says what that was, and
    why."""
    if report.artifacts:
        report = _fitting_artifacts(draft, report)
    if report.result is not None and (why := _wrong_result(draft, report.result)):
        draft.unfit["result"] = why
        report = replace(report, result=None)
    return report


def _fitting_artifacts(draft: Draft, report: Report) -> Report:
    kept = dict(report.artifacts)
    for name, value in _news(draft, report).items():
        if why := _wrong(draft, name, value):
            draft.unfit[_place(draft, name)] = why
            del kept[name]
    return report if len(kept) == len(report.artifacts) else replace(report, artifacts=kept)


def misfit(draft: Draft) -> Refused:
    """Refuse everything that was taken out."""
    errors = [{"path": f"$.{name}", "message": why} for name, why in draft.unfit.items()]
    return Refused("VALIDATION_ERROR", unfit(draft), errors=errors)


def unfit(draft: Draft) -> str:
    """Say what was taken out and why, in one sentence."""
    return "; ".join(f"{name}: {why}" for name, why in draft.unfit.items())


def _place(draft: Draft, name: str) -> str:
    """Name the field in which its sender said it."""
    if isinstance(draft.case.message, Edit):
        return "value"
    return f"artifact_updates.{name}" if isinstance(draft.case.message, Move) else name


def _news(draft: Draft, report: Report) -> dict[str, Any]:
    """Find the values of a report that are not known yet; null says nothing."""
    known = draft.job.artifacts
    return {
        name: value
        for name, value in report.artifacts.items()
        if value is not None and not (name in known and known[name].value == value)
    }


def _wrong(draft: Draft, name: str, value: Any) -> str:
    listed = draft.definition.listed.get(name)
    if _reported(draft) and (why := _not_theirs(draft, listed)):
        return why
    return unlike(value, listed.shapes) if listed else ""


def _wrong_result(draft: Draft, result: Any) -> str:
    if _reported(draft) and (why := _not_theirs(draft, None)):
        return why
    return unlike(result, draft.definition.result_shapes(draft.job.job_type))


def _reported(draft: Draft) -> bool:
    """Say whether a value came in somebody's report, and was not made by the workflow of a
    request."""
    return isinstance(draft.case.message, REPORTING)


def _not_theirs(draft: Draft, listed: Listed | None) -> str:
    writers = listed.writers if listed else FREE_TO
    if draft.actor.roles(draft.job).isdisjoint(writers):
        whose = f"only {', '.join(writers)} may" if writers else "only commands may"
        return f"{whose} write it"
    if listed is not None and listed.states and draft.job.status not in listed.states:
        return f"it is written from {', '.join(listed.states)}, not from {draft.job.status}"
    return ""


def shelved(asset: Asset, job: Snapshot, folder: str = "") -> Asset:
    """Give the asset its path, as the next file of ``job``."""
    own = "/".join(part for part in (folder, job.user_id, job.id) if part)
    above, _, said = asset.storage_path.rpartition("/")
    if above == own and PLAIN.fullmatch(said):
        return asset
    name = _name(asset, sum(job.asset_types.values()) + 1)
    return replace(asset, storage_path=f"{own}/{name}")


def _name(asset: Asset, number: int) -> str:
    address = re.split(r"[?#]", asset.url, maxsplit=1)[0].rstrip("/")
    plain = _plain(address.rpartition("/")[2]) or _plain(asset.asset_type) or "file"
    found = ENDING.search(plain)
    ending = found[0] if found else ""
    stem, suffix = plain.removesuffix(ending), f"-{number}"
    stem = stem[: NAME_MAX - len(suffix + ending)]
    if number == 1 and not NUMBERED.search(stem):
        return stem + ending
    return stem + suffix + ending


def _plain(text: str) -> str:
    """Remove what a path may not hold; a leading dot would hide the file, or lead upwards."""
    return UNSAFE.sub("_", text).lstrip("._-")
