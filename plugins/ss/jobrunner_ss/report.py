"""The results for a person: a figure and a page of text."""

import os
import warnings
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from msgspec import Struct

from jobrunner_ss.analysis import Fitted
from jobrunner_ss.showing import shown

INK, FAINT, STRONG = "#22313f", "#9fb0bf", "#2a6fb0"
ROWS_SHOWN = 30
PANELS_MAX = 6
COUNTED_MAX = 10
BYTES_MAX = 500_000
VALUE_LETTERS = 200
DRAWN_MAX = 1e100
APART = 1e-9
ROBUST = "Standard errors are robust to unequal spread ({})."
SPREAD = {"nonrobust": "Standard errors suppose an equal spread."}


class Found(Struct):
    """Everything that was computed."""

    rows: int
    overview: pd.DataFrame
    fitted: Fitted | None = None
    groups: pd.DataFrame | None = None
    by: tuple[str, ...] = ()

    def tables(self) -> dict[str, pd.DataFrame]:
        """By the names of their files."""
        known = {"descriptives.csv": self.overview}
        if self.fitted is not None:
            known["coefficients.csv"] = self.fitted.coefficients
        return known if self.groups is None else {**known, "groups.csv": self.groups}


def figures(found: Found) -> dict[str, Any]:
    """The numbers themselves, as they fit into an artifact."""
    told: dict[str, Any] = {"rows": found.rows, "columns": _records(found.overview)}
    if found.groups is not None:
        told["groups"] = _records(found.groups)
        told["groups_left_out"] = len(found.groups) - len(told["groups"])
    if (fitted := found.fitted) is not None:
        told["model"] = {
            "kind": fitted.kind,
            "outcome": fitted.outcome,
            "errors": fitted.errors,
            "rows": fitted.rows,
            "left_out": fitted.left_out,
            "fit": fitted.fit,
            "coefficients": _records(fitted.coefficients),
        }
    return told


def written(requirement: str, plan: dict[str, Any], found: Found) -> str:
    parts = [
        "# Report",
        f"**Asked for:** {' '.join(requirement.split()) or '(nothing in particular)'}",
        f"**Plan:** `{str(plan.get('plan_id', ''))[:16]}`",
        f"**Input:** `{plan.get('fingerprint') or '–'}`",
        f"The input has {found.rows:,} rows and {len(found.overview)} columns.",
        "## Columns",
        *_markdown(found.overview.drop(columns="levels"), "descriptives.csv"),
    ]
    if found.groups is not None:
        parts += ["## Groups", *_markdown(found.groups, "groups.csv")]
    if found.fitted is not None:
        terms = _markdown(found.fitted.coefficients, "coefficients.csv")
        parts += ["## Model", *_model(found.fitted), *terms]
    return "\n\n".join(parts) + "\n"


def draw(path: str, frame: pd.DataFrame, found: Found, scratch: str) -> None:
    os.environ.setdefault("MPLCONFIGDIR", scratch)
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    # A column may be called "$x", which is no formula; and not every script has a font here.
    with plt.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure = _drawn(plt, frame, found)
        figure.savefig(path, dpi=130, facecolor="white", metadata={"Software": "jobrunner ss"})
        plt.close(figure)


def _drawn(plt: Any, frame: pd.DataFrame, found: Found) -> Any:
    if found.fitted is not None:
        return _effects(plt, found.fitted)
    if found.groups is not None:
        return _bars(plt, found.groups, found.by)
    return _distributions(plt, frame)


def _model(fitted: Fitted) -> list[str]:
    name = {"ols": "Linear regression", "logit": "Logistic regression"}[fitted.kind]
    fit = ", ".join(f"{key.replace('_', ' ')} {value:.3f}" for key, value in fitted.fit.items())
    text = f"{name} of `{_cell(fitted.outcome)}` over {fitted.rows:,} rows"
    left = f"; {fitted.left_out:,} rows with holes were left out" if fitted.left_out else ""
    terms = fitted.coefficients.iloc[1:]
    strong = terms[terms["p_value"] < 0.05].head(ROWS_SHOWN)
    said = ", ".join(f"`{_cell(row.term)}` ({row.estimate:+.3g})" for row in strong.itertuples())
    return [
        f"{text}{left}. {fit}. {SPREAD.get(fitted.errors, ROBUST.format(fitted.errors))}",
        f"Told apart from zero at 5 %: {said or 'nothing'}.",
    ]


def _effects(plt: Any, fitted: Fitted) -> Any:
    """Estimates with their bounds, the first of them if they are many."""
    rows = _drawable(fitted.coefficients.iloc[1:]).head(ROWS_SHOWN)
    figure, axes = plt.subplots(figsize=(8, 1.4 + 0.42 * len(rows)), layout="constrained")
    places = np.arange(len(rows))[::-1]
    sure = (rows["p_value"] < 0.05).to_numpy()
    for place, certain, row in zip(places, sure, rows.itertuples(), strict=True):
        colour = STRONG if certain else FAINT
        axes.plot([row.low_95, row.high_95], [place, place], color=colour, linewidth=2.4)
        axes.plot([row.estimate], [place], "o", color=colour, markersize=7)
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    axes.set_yticks(places, [shown(term) for term in rows["term"]])
    what = "change of the log odds" if fitted.kind == "logit" else "change"
    axes.set_xlabel(f"{what} of {shown(fitted.outcome)}, with 95 % bounds")
    axes.set_title(f"What goes with {shown(fitted.outcome)}", color=INK, loc="left")
    _plain(axes)
    return figure


def _drawable(rows: pd.DataFrame) -> pd.DataFrame:
    """Leave out what is beyond all measure: it has no place on an axis and stands in the tables."""
    values = rows[["estimate", "low_95", "high_95"]].to_numpy(float)
    return rows[(np.abs(values) < DRAWN_MAX).all(axis=1)]


def _bars(plt: Any, groups: pd.DataFrame, by: tuple[str, ...]) -> Any:
    """The sum of the first measure in each group, or how many rows it has; the first groups if
    they are many."""
    first = groups.head(ROWS_SHOWN)
    at = min(len(by) + 1, len(first.columns) - 1)
    labels = [shown(" · ".join(map(str, row))) for row in first.iloc[:, : len(by)].to_numpy()]
    figure, axes = plt.subplots(figsize=(8, 1.4 + 0.34 * len(first)), layout="constrained")
    places = np.arange(len(first))[::-1]
    values = first.iloc[:, at].to_numpy(float)
    axes.barh(places, np.where(np.abs(values) < DRAWN_MAX, values, 0), color=STRONG)
    axes.set_yticks(places, labels)
    axes.set_xlabel(shown(first.columns[at]))
    axes.set_title(f"By {shown(', '.join(by))}", color=INK, loc="left")
    _plain(axes)
    return figure


def _distributions(plt: Any, frame: pd.DataFrame) -> Any:
    numeric = frame.select_dtypes("number").columns[:PANELS_MAX]
    names = list(numeric) or list(frame.columns[:PANELS_MAX])
    figure, grid = plt.subplots(
        1, len(names), figsize=(3.2 * len(names), 3.2), layout="constrained", squeeze=False
    )
    for axes, name in zip(grid[0], names, strict=True):
        column = frame[name].dropna()
        if name in numeric and _apart(column):
            axes.hist(column, bins=min(30, max(5, column.nunique())), color=STRONG)
        else:
            _counted(axes, column)
        axes.set_title(shown(name), color=INK, loc="left")
        _plain(axes)
    return figure


def _apart(column: pd.Series) -> bool:
    """Say whether an axis can tell its values apart. It cannot with values that are nearly equal,
    as those of long numbers that name things, nor with values beyond all measure."""
    low, high = float(column.min()), float(column.max())
    largest = max(abs(low), abs(high))
    return largest < DRAWN_MAX and high - low > largest * APART


def _counted(axes: Any, column: pd.Series) -> None:
    """The values that there are most of, and how often."""
    counts = column.astype(str).value_counts().head(COUNTED_MAX)[::-1]
    places = np.arange(len(counts))
    axes.barh(places, counts.to_numpy(), color=STRONG)
    axes.set_yticks(places, [shown(value) for value in counts.index])


def _plain(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A row a record, as many from the beginning as an artifact takes."""
    names = [str(name) for name in frame.columns]
    records, size = [], 0
    for row in frame.itertuples(index=False, name=None):
        values = zip(names, map(_value, row), strict=True)
        records.append({name: value for name, value in values if value not in (None, "")})
        size += len(msgspec.json.encode(records[-1]))
        if size > BYTES_MAX:
            return records[:-1]
    return records


def _value(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return None if not np.isfinite(value) else float(f"{float(value):.6g}")
    if isinstance(value, str):
        return shown(value, VALUE_LETTERS)
    return value.item() if isinstance(value, np.generic) else value


def _markdown(frame: pd.DataFrame, whole: str) -> list[str]:
    """A table, and where the rest of it is."""
    head = [_cell(str(name)) for name in frame.columns]
    body = [
        [_cell(value) for value in row] for row in frame.head(ROWS_SHOWN).itertuples(index=False)
    ]
    lines = [head, ["---"] * len(head), *body]
    shown = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    more = len(frame) - ROWS_SHOWN
    return [shown, *([f"… and {more:,} more, all of them in `{whole}`."] if more > 0 else [])]


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}" if np.isfinite(value) else ""
    plain = (
        shown(value, VALUE_LETTERS).replace("\\", "\\\\").replace("|", "\\|").replace("`", "\\`")
    )
    return " ".join(plain.split()).replace("<", "&lt;")
