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
from jobrunner_ss.words import Words

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
ARTICLE = re.compile(r"\b(?:the|of|a|an|our|my)\s+$")
BEFORE = 64
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
    words = Words(requirement)
    named = _named(columns, words)
    outcome = _outcome(named, words)
    kind = _kind(named, outcome, words.text)
    model = kind != "descriptive"
    target = str(outcome["name"]) if outcome and model else ""
    others = [column for column in named if column["name"] != target] or columns
    predictors = [column["name"] for column in others if _explains(column, target)]
    by, measures = ([], []) if model else _groups(named, words)
    return {
        "requirement": requirement,
        "data": {"rows": rows, "columns": columns},
        "analysis": {
            "kind": kind,
            "outcome": target,
            "predictors": predictors[:PREDICTORS_MAX] if model else [],
            "errors": "HC1",
            "by": by,
            "measures": measures,
        },
        "questions": _questions(columns, kind, target),
    }


def _named(columns: list[Column], words: Words) -> list[Column]:
    """The columns that the words mention, in the order of the words."""
    places = [(words.place(column["name"]), column) for column in columns]
    found = [(place, column) for place, column in places if place is not None]
    return [column for _, column in sorted(found, key=lambda pair: pair[0])]


def _outcome(named: list[Column], words: Words) -> Column | None:
    """Find the column after "explain", or after the "on" of "the effect of x on y"; else what is
    mentioned first and can be an outcome."""
    fitting = [one for one in named if one["kind"] in ("numeric", "binary")]
    for column in fitting:
        place = words.place(column["name"]) or 0
        before = ARTICLE.sub("", words.text[max(0, place - BEFORE) : place])
        if OUTCOME.search(before):
            return column
    return fitting[0] if fitting else None


def _kind(named: list[Column], outcome: Column | None, words: str) -> str:
    asked = [
        kind for kind, signs in ASKS.items() if any(re.search(rf"\b{one}", words) for one in signs)
    ]
    if not asked and len(named) < 2:
        return "descriptive"
    if asked and asked[0] == "descriptive":
        return "descriptive"
    two = outcome is not None and outcome["kind"] == "binary"
    linear = re.search(r"\b(linear|ols)\b", words) and outcome is not None and "mean" in outcome
    return "logit" if "logit" in asked or (two and not linear) else "ols"


def _groups(named: list[Column], words: Words) -> tuple[list[str], list[str]]:
    """Of "the sales by region and month": what splits, and what is measured."""
    found = SPLIT.search(words.text)
    if found is None:
        return [], []
    after = [
        column
        for column in named
        if (words.place(column["name"]) or 0) > found.start()
        and column["kind"] not in ("text", "empty")
    ]
    splits = {str(column["name"]) for column in after}
    measured = [
        str(one["name"])
        for one in named
        if one["name"] not in splits and one["kind"] in ("numeric", "binary") and "mean" in one
    ]
    return [str(one["name"]) for one in after], measured


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
