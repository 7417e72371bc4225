"""Doing a job again as a new one, without doing again what still holds.

The new job is born like any other, in its initial state, at the price and under the checks of a
submission. What it gets along are the files that stages before the chosen place had made, as rows
and files of its own: such a stage is superfluous when the job comes by, and is walked past. The old
job is left as it is.
"""

from collections.abc import Collection
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from jobrunner.core.decision import AuditRecord
from jobrunner.core.draft import Draft
from jobrunner.core.job import Artifact, Asset, Snapshot
from jobrunner.core.messages import Origin
from jobrunner.core.shelving import NUMBERED, shelved
from jobrunner.core.workflow import Definition
from jobrunner.errors import Refused

ENDED = ("settled", "final")


def place_of(
    definition: Definition,
    job: Snapshot,
    wanted: str | None,
    corrected: bool,
    sound: Collection[str],
) -> str | Refused:
    """From where on work is done again. A job that failed begins where it failed, another one
    behind the last of its files that is sound; with other parameters, from the beginning."""
    if job.kind not in ENDED:
        text = f"the job is {job.status}; it can be done again when it has ended"
        return Refused("JOB_NOT_SETTLED", text, current_status=job.status)
    if wanted is not None:
        return wanted if wanted in places(definition) else _no_place(definition, wanted)
    if job.failure_code and job.failed_stage in places(definition):
        return job.failed_stage or ""
    if corrected:
        return definition.workflow.initial
    return _behind_the_last(definition, job, sound)


def places(definition: Definition) -> list[str]:
    """Where a job can be taken up again: its beginning, its stages, and its checkpoints."""
    initial = definition.workflow.initial
    return [
        state.name
        for state in definition.workflow.states
        if state.name == initial or state.kind == "active" or state.checkpoint
    ]


def carried(
    definition: Definition, job: Snapshot, place: str, sound: Collection[str]
) -> list[Artifact]:
    """What stages before the place have made, as far as its files are sound."""
    made = []
    for state in definition.workflow.states:
        found = job.artifacts.get(state.produces) if state.produces else None
        before = place in _behind(definition, state.name, job.job_type)
        if found is not None and found.asset in sound and before and found not in made:
            made.append(found)
    return made


def moved(
    job: Snapshot, folder: str, found: list[tuple[Artifact, Asset]], ids: list[str], at: int
) -> tuple[tuple[Artifact, ...], tuple[Asset, ...]]:
    """The same values and files as those of another job, which gets a name of its own for each.
    ``job`` is the new one as far as paths go; its files are counted from the first on."""
    artifacts: list[Artifact] = []
    assets: list[Asset] = []
    for (artifact, asset), fresh in zip(found, ids, strict=True):
        counted = replace(job, asset_types={"": len(assets)})
        name = _unnumbered(asset.storage_path.rpartition("/")[2])
        placed = shelved(replace(asset, storage_path="", url=name), counted, folder)
        url = asset.url.replace(asset.id, fresh)
        value = url if artifact.value == asset.url else artifact.value
        new = {"id": fresh, "url": url, "created_at": at, "storage_path": placed.storage_path}
        assets.append(replace(asset, **new))
        artifacts.append(
            replace(artifact, version=1, value=value, created_at=at, run_id="", asset=fresh)
        )
    return tuple(artifacts), tuple(assets)


def merged(old: Any, corrections: dict[str, Any]) -> dict[str, Any]:
    """Corrections lie over the old parameters, name by name."""
    known = old if isinstance(old, dict) and old is not UNSET else {}
    return {**known, **corrections}


def inherit(draft: Draft, origin: Origin) -> None:
    """A newborn gets what its origin hands on."""
    counts: dict[str, int] = {}
    for asset in origin.assets:
        counts[asset.asset_type] = counts.get(asset.asset_type, 0) + 1
    draft.assets += origin.assets
    draft.artifacts += origin.artifacts
    draft.set(
        forked_from=origin.job_id,
        artifacts={artifact.name: artifact for artifact in origin.artifacts},
        asset_types=counts,
        asset_url=origin.assets[-1].url if origin.assets else None,
    )
    fields = {"of": origin.job_id, "from": origin.place, "reason": origin.reason}
    draft.audits.append(AuditRecord("job.rerun", origin.by, fields))
    draft.answer |= {"from": origin.place, "carried": [one.name for one in origin.artifacts]}


def _behind(definition: Definition, start: str, job_type: str) -> set[str]:
    """Every place that the work itself leads to from here, when it goes well."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        state = definition.states[ahead.pop()]
        for target in (state.done, definition.onward_of(state.name, job_type)):
            if target and target not in found:
                found.add(target)
                ahead.append(target)
    return found - {start}


def _behind_the_last(definition: Definition, job: Snapshot, sound: Collection[str]) -> str:
    """The state that the last stage whose file is sound leads to: the one most places lie before
    of which something is kept."""
    best, most = definition.workflow.initial, 0
    for state in definition.workflow.states:
        made = job.artifacts.get(state.produces) if state.produces else None
        if made is None or made.asset not in sound or not state.done:
            continue
        count = len(carried(definition, job, state.done, sound))
        if count > most:
            best, most = state.done, count
    return best


def _no_place(definition: Definition, wanted: str) -> Refused:
    known = ", ".join(places(definition))
    text = f"{wanted!r} is no place to begin again from; there are: {known}"
    return Refused("VALIDATION_ERROR", text, errors=[{"path": "$.from", "message": text}])


def _unnumbered(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    return NUMBERED.sub("", stem) + dot + ending
