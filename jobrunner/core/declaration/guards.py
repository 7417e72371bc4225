"""Guards that any workflow may name without bringing them along."""

from collections.abc import Callable
from typing import Any

from jobrunner.core.declaration.ask import Ask
from jobrunner.core.declaration.turn_keys import TURN_KEYS
from jobrunner.errors import Refused


def output_stored(ask: Ask, assets_only: bool = False, asset_type: str = "") -> Refused | None:
    """There is something to show for it: a file (of one type, if the workflow insists) or, unless
    ``assets_only``, a result."""
    job = ask.snapshot
    brought = {upload.asset_type for upload in ask.definition.workflow.uploads}
    files = asset_type in job.asset_types if asset_type else bool(job.asset_types.keys() - brought)
    if files or (job.result is not None and not assets_only):
        return None
    kind = f"an asset of type {asset_type!r}" if asset_type else "an asset"
    wanted = kind if assets_only else f"{kind} or a result"
    return Refused(
        "RESULT_MISSING", f"{ask.target} needs {wanted}, in this report or stored before"
    )


def artifact_present(ask: Ask, name: str, code: str, detail: str) -> Refused | None:
    """A named artifact is stored, in this request or before."""
    return None if ask.snapshot.value(name) is not None else Refused(code, detail)


def artifact_of_run(ask: Ask, name: str, code: str, detail: str) -> Refused | None:
    """A named artifact was stored by the run that is open now, or is said again in this report."""
    job = ask.snapshot
    found = job.artifacts.get(name)
    said = ask.report.artifacts.get(name) is not None
    if found is not None and (found.run_id == job.run_id or said):
        return None
    return Refused(code, detail)


def verified(ask: Ask, artifact: str) -> Refused | None:
    """The artifact's file is there and as recorded, or came with this report; an outside value
    counts as given."""
    found = ask.snapshot.artifacts.get(artifact)
    sound = ask.facts.verified | {asset.id for asset in ask.report.assets}
    if found is not None and (not found.asset or found.asset in sound):
        return None
    return Refused("RESULT_MISSING", f"{ask.target} needs {artifact}, stored and verified")


BUILT_IN: dict[str, Callable[..., Any]] = {
    "output_stored": output_stored,
    "artifact_present": artifact_present,
    "artifact_of_run": artifact_of_run,
    "verified": verified,
    **TURN_KEYS,
}
