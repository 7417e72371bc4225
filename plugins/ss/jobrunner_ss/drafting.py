"""The stage ``ss.draft``: out of the uploaded table and the words of the requirement, a proposal of
what to compute, as an object that a person can correct before it is agreed on.

It reads the words for the names of columns and for what such words usually ask for; what it cannot
tell becomes a question, which confirming insists on.
"""

import re
from typing import Any

from jobrunner import Done, PermanentFailure, PlainContext, stage
from jobrunner_ss.params import SsParams
from jobrunner_ss.recipes import normal

Column = dict[str, Any]
Ctx = PlainContext[SsParams]

ASKS = {
    "logit": ("logit", "logistic", "probability", "odds", "likelihood", "whether"),
    "ols": ("effect", "regress", "explain", "impact", "influence", "predict", "depend", "associat",
            "relationship", "correlat", "linear", "ols"),
    "descriptive": ("describe", "sum", "overview", "average", "mean", "total", "count",
                    "distribution", "how many"),
}  # fmt: skip
OUTCOME = re.compile(r"(?:\bon|explain|predict|outcome(?: is)?|depend(?:s|ent)?(?: variable)?)\s+$")
SPLIT = re.compile(r"\b(?:by|per|for each|for every|across)\b")
PREDICTORS_MAX = 8


@stage("ss.draft", memory=4096 * 1024 * 1024)
def draft(ctx: Ctx) -> Done:
    from jobrunner_ss import table

    if "input" not in ctx.artifacts:
        text = "there is no input yet: upload a CSV with PUT /jobs/{id}/upload, or send a draft"
        raise PermanentFailure("INPUT_MISSING", text)
    ctx.progress(20, "reading the input")
    frame = table.read(ctx.file("input"))
    ctx.progress(60, "looking at its columns")
    columns = table.described(frame)
    proposal = proposed(columns, len(frame), normal(ctx.params.requirement or ""))
    proposal["data"]["notes"] = table.notes(frame)
    for note in table.notes(frame):
        ctx.log(note)
    return Done(artifacts={"draft": proposal})


def proposed(columns: list[Column], rows: int, requirement: str) -> dict[str, Any]:
    """Pure, so that the same words over the same table are the same proposal."""
    named = _named(columns, requirement)
    kind = _kind(columns, named, requirement)
    outcome = _outcome(columns, named, requirement) if kind != "descriptive" else ""
    model = kind != "descriptive"
    others = [column for column in named if column["name"] != outcome] or columns
    predictors = [column["name"] for column in others if _explains(column, outcome)]
    by, measures = ([], []) if model else _groups(named, requirement)
    return {
        "requirement": requirement,
        "data": {"rows": rows, "columns": columns},
        "analysis": {
            "kind": kind,
            "outcome": outcome,
            "predictors": predictors[:PREDICTORS_MAX] if model else [],
            "errors": "HC1",
            "by": by,
            "measures": measures,
        },
        "questions": _questions(columns, kind, outcome),
    }


def _groups(named: list[Column], requirement: str) -> tuple[list[str], list[str]]:
    """Of "the sales by region and month": what splits, and what is measured."""
    found = SPLIT.search(requirement.lower())
    if found is None:
        return [], []
    after = [
        column
        for column in named
        if (_place(column["name"], requirement) or 0) > found.start()
        and column["kind"] not in ("text", "empty")
    ]
    measured = [one for one in named if one not in after and one["kind"] in ("numeric", "binary")]
    measures = [str(one["name"]) for one in measured if "mean" in one]
    return [str(one["name"]) for one in after], measures


def _named(columns: list[Column], requirement: str) -> list[Column]:
    """The columns that the words mention, in the order of the words."""
    found = []
    for column in columns:
        place = _place(column["name"], requirement)
        if place is not None:
            found.append((place, column))
    return [column for _, column in sorted(found, key=lambda pair: pair[0])]


def _place(name: str, requirement: str) -> int | None:
    if not re.search(r"\w", name):
        return None
    plain = re.sub(r"[\W_]+", r"[\\W_]*", re.escape(name.lower()).replace("\\", ""))
    match = re.search(rf"(?<!\w){plain}(?!\w)", requirement.lower())
    return match.start() if match else None


def _kind(columns: list[Column], named: list[Column], requirement: str) -> str:
    words = requirement.lower()
    asked = [
        kind for kind, signs in ASKS.items() if any(re.search(rf"\b{one}", words) for one in signs)
    ]
    if not asked and len(named) < 2:
        return "descriptive"
    if asked and asked[0] == "descriptive":
        return "descriptive"
    outcome = next((one for one in columns if one["name"] == _outcome(columns, named, words)), None)
    two = outcome is not None and outcome["kind"] == "binary"
    linear = re.search(r"\b(linear|ols)\b", words) and outcome is not None and "mean" in outcome
    return "logit" if "logit" in asked or (two and not linear) else "ols"


def _outcome(columns: list[Column], named: list[Column], requirement: str) -> str:
    """What stands after "explain", or after the "on" of "the effect of x on y"; else what is
    mentioned first and can be an outcome."""
    words = requirement.lower()
    for column in named:
        place = _place(column["name"], words)
        before = re.sub(r"\b(?:the|of|a|an|our|my)\s+$", "", words[: place or 0])
        if OUTCOME.search(before) and column["kind"] in ("numeric", "binary"):
            return str(column["name"])
    fitting = [one["name"] for one in named if one["kind"] in ("numeric", "binary")]
    return str(fitting[0]) if fitting else ""


def _explains(column: Column, outcome: str) -> bool:
    return column["name"] != outcome and column["kind"] in ("numeric", "binary", "category")


def _questions(columns: list[Column], kind: str, outcome: str) -> list[dict[str, Any]]:
    """Required is only what cannot be guessed."""
    fitting = [one["name"] for one in columns if one["kind"] in ("numeric", "binary")]
    every = [one["name"] for one in columns if one["kind"] not in ("text", "empty")]
    return [
        {"id": "kind", "question": "Describe the table, or fit a model?", "required": False,
         "options": ["descriptive", "ols", "logit"]},
        {"id": "outcome", "question": "Which column is to be explained?",
         "required": kind != "descriptive" and not outcome, "options": fitting},
        {"id": "predictors", "question": "By which columns?", "required": False,
         "options": every},
        {"id": "by", "question": "Split by which columns, when it is described?",
         "required": False, "options": every},
    ]  # fmt: skip
