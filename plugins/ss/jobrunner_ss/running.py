"""The stage ``ss.run``: the frozen plan, carried out over the input that it covers.

Results are tables, a figure and a short report, all of them files of the job; the artifact
``results`` holds the figures themselves. The log of the attempt is its evidence: what was read, by
which digest, with which versions of what.
"""

import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from jobrunner import Done, PermanentFailure, PlainContext, stage
from jobrunner_ss.params import SsParams
from jobrunner_ss.showing import shown

if TYPE_CHECKING:
    import pandas as pd

    from jobrunner_ss.report import Found

Ctx = PlainContext[SsParams]


@stage("ss.run", memory=8192 * 1024 * 1024)
def run(ctx: Ctx) -> Done:
    from jobrunner_ss import analysis, report, table

    plan = ctx.artifacts.get("plan")
    if not isinstance(plan, dict):
        raise PermanentFailure("PLAN_MISSING", "no plan is frozen; freeze-plan or confirm make one")
    path = _input(ctx, plan)
    ctx.progress(10, "reading the input")
    frame = table.read(path)
    ctx.log(f"read {len(frame)} rows, {len(frame.columns)} columns")
    ctx.log(f"pandas {version('pandas')}, statsmodels {version('statsmodels')}")
    for note in table.notes(frame):
        ctx.log(note)
    ctx.progress(30, "describing the columns")
    wanted = analysis.wanted(_draft(ctx, plan), plan.get("answers") or {})
    found = report.Found(len(frame), analysis.description(frame))
    if wanted.kind != "descriptive":
        ctx.progress(50, f"fitting: {wanted.kind}")
        found.fitted = analysis.fitted(frame, wanted)
        ctx.log(
            f"fitted {wanted.kind} over {found.fitted.rows} rows, {found.fitted.left_out} left out"
        )
    elif wanted.by:
        found.groups, found.by = analysis.grouped(frame, wanted), wanted.by
        ctx.log(f"{len(found.groups)} groups by {shown(', '.join(wanted.by))}")
    ctx.progress(70, "drawing and writing")
    return _stored(ctx, plan, frame, found)


def _draft(ctx: Ctx, plan: dict[str, Any]) -> Any:
    """In the version that the plan covers."""
    covered = plan.get("draft_version")
    return ctx.artifact("draft", covered) if covered else ctx.artifacts.get("draft")


def _input(ctx: Ctx, plan: dict[str, Any]) -> str:
    """Read only when it is the one that the plan was agreed on for."""
    if "input" not in ctx.artifacts:
        text = "there is no input: it is uploaded before the plan is frozen"
        raise PermanentFailure("INPUT_MISSING", text)
    path = ctx.file("input")
    ctx.log(f"input fingerprint {plan.get('fingerprint') or '(none given)'}")
    return path


def _stored(ctx: Ctx, plan: dict[str, Any], frame: "pd.DataFrame", found: "Found") -> Done:
    from jobrunner_ss import report
    from jobrunner_ss.tables_out import csv_of

    for name, result in found.tables().items():
        escaped = ctx.settings.get("escape_formulas", True)
        ctx.save(name, csv_of(result, escaped=bool(escaped)), asset_type="table")
    picture = os.path.join(ctx.scratch, "figure.png")
    report.draw(picture, frame, found, ctx.scratch)
    ctx.save("figure.png", picture, asset_type="figure", artifact="figure")
    text = report.written(ctx.params.requirement or "", plan, found)
    ctx.save("report.md", text.encode(), asset_type="report", artifact="report")
    ctx.progress(95, "stored")
    results = report.figures(found)
    return Done(result=results, artifacts={"results": results})


__all__ = ["run"]
