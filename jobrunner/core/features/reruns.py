"""Doing a job again as a new one, without doing again what still holds.

The new job is born like any other, in its initial state, at the price and under the checks of a
submission. What it gets along are the files that stages before the chosen place had made, as rows
and files of its own: such a stage is superfluous when the job comes by, and is walked past. The old
job is left as it is.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.draft import Draft
from jobrunner.core.job import Artifact, Asset, Snapshot
from jobrunner.core.messages import Origin
from jobrunner.core.reports import NUMBERED, shelved
from jobrunner.core.units import AuditRecord
from jobrunner.errors import Refused


def place_of(
    definition: Definition,
    job: Snapshot,
    wanted: str | None,
    corrected: bool,
    sound: Collection[str],
) -> str | Refused:
    """Find where work is to be done again. A failed job begins where it failed, another one behind
    the last of its sound files; with other parameters, at the beginning."""
    if not job.ended:
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
    """List where a job can be taken up again: its beginning, its stages, and its checkpoints."""
    initial = definition.workflow.initial
    return [
        state.name
        for state in definition.workflow.states
        if state.name == initial or state.kind == "active" or state.checkpoint
    ]


def first_of(definition: Definition, job: Snapshot) -> list[str]:
    """Products whose current value is no file any more, because somebody went on from it: what the
    stage itself had made is their first version."""
    products = [state.produces for state in definition.workflow.states if state.produces]
    return [name for name in products if name in job.artifacts and not job.artifacts[name].asset]


def carried(
    definition: Definition, job: Snapshot, place: str, sound: Collection[str]
) -> list[Artifact]:
    """Collect what stages before the place have made, as far as its files are sound, each with what
    goes along with it."""
    made: list[Artifact] = []
    for state in definition.workflow.states:
        found = job.artifacts.get(state.produces) if state.produces else None
        if found is None or found.asset not in sound or found in made:
            continue
        if _is_before(definition, state.name, place, job.job_type):
            along = [job.artifacts[name] for name in state.along if name in job.artifacts]
            made += [one for one in along if one not in made] + [found]
    return made


def named_in(artifact: Artifact, assets: Mapping[str, Asset]) -> list[Asset]:
    """The files that a value names by their address, anywhere in it, and the one behind it;
    ``assets`` by their address."""
    found: dict[str, Asset] = {}
    ahead = [artifact.value]
    while ahead:
        value = ahead.pop()
        if isinstance(value, str) and value in assets:
            found[value] = assets[value]
        elif isinstance(value, dict | list):
            inner = value.values() if isinstance(value, dict) else value
            ahead += reversed(list(inner))
    own = [asset for asset in assets.values() if asset.id == artifact.asset]
    return [asset for asset in found.values() if asset not in own] + own


def moved(
    job: Snapshot,
    folder: str,
    artifacts: Iterable[Artifact],
    assets: Iterable[tuple[Asset, str]],
    at: int,
) -> tuple[tuple[Artifact, ...], tuple[Asset, ...]]:
    """The same values and files as those of another job, which gets a name of its own for each.
    ``job`` is the new one as far as paths go; its files are counted from the first on, and come
    each with a fresh id."""
    made: list[Asset] = []
    ids, urls = {"": ""}, {}
    for asset, fresh in assets:
        counted = replace(job, asset_types={"": len(made)})
        name = _unnumbered(asset.storage_path.rpartition("/")[2])
        placed = shelved(replace(asset, storage_path="", url=name), counted, folder)
        url = asset.url.replace(asset.id, fresh)
        new = {"id": fresh, "url": url, "created_at": at, "storage_path": placed.storage_path}
        made.append(replace(asset, **new))
        ids[asset.id], urls[asset.url] = fresh, url
    new_ones = tuple(
        replace(
            one, version=1, value=_renamed(one.value, urls), created_at=at, run_id="",
            asset=ids.get(one.asset, ""),
        )
        for one in artifacts
    )  # fmt: skip
    return new_ones, tuple(made)


def _renamed(value: Any, urls: Mapping[str, str]) -> Any:
    """The same value, with the new addresses where it named the old ones."""
    if isinstance(value, str):
        return urls.get(value, value)
    if isinstance(value, list):
        return [_renamed(one, urls) for one in value]
    if isinstance(value, dict):
        return {name: _renamed(one, urls) for name, one in value.items()}
    return value


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
    draft.audits += (AuditRecord("job.rerun", origin.by, fields),)
    draft.answer |= {"from": origin.place, "carried": [one.name for one in origin.artifacts]}


def _is_before(definition: Definition, state: str, place: str, job_type: str) -> bool:
    """Along the work itself; or along what people have to do as well, unless that leads from the
    place back to the state, so that it lies behind as much as before."""
    if place in _behind(definition, state, job_type):
        return True
    return place in _behind(definition, state, job_type, people=True) and state not in _behind(
        definition, place, job_type, people=True
    )


def _behind(definition: Definition, start: str, job_type: str, people: bool = False) -> set[str]:
    """List every place to which the work itself leads from here when it goes well; with ``people``
    also those to which somebody may take it from a waiting state."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        state = definition.states[ahead.pop()]
        targets = {state.done, definition.onward_of(state.name, job_type)}
        if people and state.kind == "waiting":
            targets |= {edge.target for edge in definition.workflow.edges
                        if edge.source == state.name}  # fmt: skip
        for target in sorted(targets - found - {""}):
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
