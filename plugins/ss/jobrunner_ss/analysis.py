"""The computations: descriptions always, and a model when the plan has one. Tables come out as
tables, and every number says how many rows stand behind it.
"""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from msgspec import Struct
from statsmodels.tools.sm_exceptions import (
    ModelWarning,
    PerfectSeparationError,
    PerfectSeparationWarning,
)

from jobrunner import PermanentFailure
from jobrunner_ss import table
from jobrunner_ss.as_numbers import is_number
from jobrunner_ss.showing import shown

LEVELS_MAX = 30
CELLS_MAX = 100_000_000
TERMS_MAX = 1_000
GROUPS_MAX = 1_000
COLUMNS_SHOWN = 1_500
ALIKE = 1e-9
CERTAIN = 1e-8
LARGEST, TINY = 1e100, 1e-300
ERRORS = {"ols": ("nonrobust", "HC0", "HC1", "HC2", "HC3"), "logit": ("nonrobust", "HC0", "HC1")}


class Wanted(Struct, frozen=True):
    """The analysis of a plan, with the answers laid over the draft's proposal."""

    kind: str = "descriptive"
    outcome: str = ""
    predictors: tuple[str, ...] = ()
    errors: str = "HC1"
    by: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()


class Fitted(Struct, frozen=True):
    """A model. ``coefficients`` has a row a term: estimate, standard error, bounds, p."""

    kind: str
    outcome: str
    errors: str
    rows: int
    left_out: int
    fit: dict[str, float]
    coefficients: pd.DataFrame


def wanted(draft: Any, answers: dict[str, Any]) -> Wanted:
    """Raises: PermanentFailure MODEL_UNFIT, for what is no name of a column or of an analysis."""
    proposal = draft.get("analysis") if isinstance(draft, dict) else None
    known: dict[str, Any] = {**(proposal if isinstance(proposal, dict) else {}), **answers}
    outcome = _word(known, "outcome", "")
    return Wanted(
        _word(known, "kind", "descriptive"),
        outcome,
        tuple(name for name in _names(known, "predictors") if name != outcome),
        _word(known, "errors", "HC1"),
        _names(known, "by"),
        _names(known, "measures"),
    )


def _word(known: dict[str, Any], name: str, default: str) -> str:
    value = known.get(name) or default
    if not isinstance(value, str):
        raise _unfit(f"{name} is {shown(value)}, and has to be a text")
    return value.strip()


def _names(known: dict[str, Any], name: str) -> tuple[str, ...]:
    """A list of columns, or their names with commas between them; each once."""
    value = known.get(name) or []
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _unfit(f"{name} is {shown(value)}, and has to be a list of columns")
    return tuple(dict.fromkeys(value))


def description(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a column."""
    rows = []
    for column in table.described(frame):
        levels = column.pop("levels", None)
        text = ", ".join(f"{name}: {count}" for name, count in levels.items()) if levels else ""
        rows.append({**column, "levels": text})
    order = ["name", "kind", "missing", "mean", "sd", "min", "median", "max", "levels"]
    return pd.DataFrame(rows).reindex(columns=order)


def grouped(frame: pd.DataFrame, plan: Wanted) -> pd.DataFrame:
    """A row a group: how many rows it has, and sum and mean of each measure.

    Raises: PermanentFailure CONTRACT_COLUMN_NOT_FOUND, MODEL_UNFIT"""
    _present(frame, (*plan.by, *plan.measures))
    for name in plan.measures:
        if not is_number(frame[name]):
            raise _unfit(f"{name!r} is not numeric, so there is no sum and no mean of it")
    groups = frame.groupby(list(plan.by), dropna=False, sort=True, observed=True)
    if groups.ngroups > GROUPS_MAX:
        raise _unfit(f"{groups.ngroups:,} groups are too many; {GROUPS_MAX:,} are shown")
    found = {"rows": groups.size()}
    for name in plan.measures:
        found |= {f"{name}: sum": groups[name].sum(), f"{name}: mean": groups[name].mean()}
    return pd.DataFrame(found).reset_index(allow_duplicates=True)


def fitted(frame: pd.DataFrame, plan: Wanted) -> Fitted:
    """Raises: PermanentFailure CONTRACT_COLUMN_NOT_FOUND, MODEL_UNFIT."""
    _check(frame, plan)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return _fitted(frame, plan)


def _fitted(frame: pd.DataFrame, plan: Wanted) -> Fitted:
    used = frame[[plan.outcome, *plan.predictors]].dropna()
    outcome, terms = _outcome(used, plan), _terms(used, plan)
    if len(used) <= terms.shape[1] + 1:
        raise _unfit(f"{len(used)} whole rows are too few for {terms.shape[1]} terms")
    _check_terms(outcome, terms, plan)
    left_out = len(frame) - len(used)
    found = _estimated(outcome, terms, plan)
    return Fitted(
        plan.kind, plan.outcome, plan.errors, len(used), left_out, _fit(found, plan), _table(found)
    )


def _estimated(outcome: pd.Series, terms: pd.DataFrame, plan: Wanted) -> Any:
    """A warning of the fit is a reason not to believe it."""
    model = sm.Logit(outcome, terms) if plan.kind == "logit" else sm.OLS(outcome, terms)
    options = {"disp": 0, "maxiter": 200} if plan.kind == "logit" else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ModelWarning)
            found = model.fit(cov_type=plan.errors, **options)
    except (PerfectSeparationError, PerfectSeparationWarning) as error:
        raise _unfit(
            "the predictors tell the outcome perfectly, so no odds can be given"
        ) from error
    except (ModelWarning, np.linalg.LinAlgError, ValueError) as error:
        raise _unfit("no estimates were found that fit; take fewer or other columns") from error
    if plan.kind == "logit" and _certain(found):
        raise _unfit("some rows are told perfectly by the predictors: drop the one that does so")
    return found


def _certain(found: Any) -> bool:
    """Chances of nought or one, which only estimates without bound can give."""
    chances = np.asarray(found.predict())
    return bool((np.minimum(chances, 1 - chances) < CERTAIN).any())


def _check(frame: pd.DataFrame, plan: Wanted) -> None:
    if plan.kind not in ("ols", "logit"):
        raise _unfit(f"{shown(plan.kind)!r} is no model; ols and logit are")
    if not plan.outcome or not plan.predictors:
        raise _unfit("a model needs an outcome and at least one predictor")
    _present(frame, (plan.outcome, *plan.predictors))
    known = ERRORS[plan.kind]
    if plan.errors not in known:
        raise _unfit(
            f"errors {shown(plan.errors)!r} are unknown for {plan.kind}; {', '.join(known)} are"
        )


def _present(frame: pd.DataFrame, names: tuple[str, ...]) -> None:
    for name in names:
        if name not in frame.columns:
            known = shown(", ".join(map(str, frame.columns)), COLUMNS_SHOWN)
            text = f"the input has no column {shown(name)!r}; it has {known}"
            raise PermanentFailure("CONTRACT_COLUMN_NOT_FOUND", text)


def _check_terms(outcome: pd.Series, terms: pd.DataFrame, plan: Wanted) -> None:
    size = float(np.abs(terms.to_numpy()).max())
    if not max(size, float(outcome.abs().max())) < LARGEST:
        raise _unfit(f"some values are beyond {LARGEST:g}, which is too large to compute with")
    if outcome.nunique() < 2:
        raise _unfit(f"{plan.outcome!r} is the same in every row, so there is nothing to explain")
    if (idle := _idle(terms)) is not None:
        alone = terms.iloc[:, idle].nunique() < 2
        why = "is the same in every row" if alone else "follows from the others"
        raise _unfit(f"{shown(terms.columns[idle])!r} {why}: leave it out")


def _idle(terms: pd.DataFrame) -> int | None:
    """The place of the first term that adds nothing to those before it. The smallest eigenvalue
    only falls as terms are added, so the place is found by halving."""
    values = terms.to_numpy(float)
    values = values / np.maximum(np.abs(values).max(axis=0), TINY)
    values = values / np.maximum(np.sqrt((values**2).mean(axis=0)), TINY)
    likeness = values.T @ values / len(values)
    low, high = 1, len(likeness)
    if _least(likeness, high) >= ALIKE:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _least(likeness, middle) < ALIKE else (middle + 1, high)
    return low - 1


def _least(likeness: Any, count: int) -> float:
    return float(np.linalg.eigvalsh(likeness[:count, :count])[0])


def _outcome(used: pd.DataFrame, plan: Wanted) -> pd.Series:
    column = used[plan.outcome]
    if plan.kind == "ols":
        if not is_number(column):
            raise _unfit(f"{plan.outcome!r} is not numeric; ask for logit, or for another column")
        return column.astype(float)
    levels = sorted(column.unique(), key=str)
    if len(levels) != 2:
        raise _unfit(f"{plan.outcome!r} has {len(levels)} values where logit needs two")
    return (column == levels[1]).astype(float)


def _terms(used: pd.DataFrame, plan: Wanted) -> pd.DataFrame:
    """Numbers as they are; words as one term a level, against the first level."""
    parts = []
    for name in plan.predictors:
        column = used[name]
        if is_number(column):
            parts.append(column.astype(float))
            continue
        if column.nunique() > LEVELS_MAX:
            raise _unfit(f"{name!r} has {column.nunique()} different texts; {LEVELS_MAX} are used")
        parts.append(pd.get_dummies(column.astype(str), prefix=name, drop_first=True, dtype=float))
        _check_size(parts)
    _check_size(parts)
    return sm.add_constant(pd.concat(parts, axis="columns"), has_constant="add")


def _check_size(parts: list[Any]) -> None:
    rows, terms = len(parts[0]), sum(1 if part.ndim == 1 else part.shape[1] for part in parts)
    if terms > TERMS_MAX:
        raise _unfit(f"more than {TERMS_MAX:,} terms are too many: take fewer predictors")
    if rows * terms > CELLS_MAX:
        raise _unfit(f"{rows:,} rows by {terms} terms are too much: take fewer terms")


def _fit(found: Any, plan: Wanted) -> dict[str, float]:
    if plan.kind == "logit":
        known = {"pseudo_r2": found.prsquared, "log_likelihood": found.llf}
    else:
        known = {"r2": found.rsquared, "adjusted_r2": found.rsquared_adj}
    return {name: float(f"{float(value):.6g}") for name, value in known.items()}


def _table(found: Any) -> pd.DataFrame:
    bounds = found.conf_int()
    rows = pd.DataFrame(
        {
            "term": found.params.index,
            "estimate": found.params.to_numpy(),
            "std_error": found.bse.to_numpy(),
            "low_95": bounds[0].to_numpy(),
            "high_95": bounds[1].to_numpy(),
            "p_value": found.pvalues.to_numpy(),
        }
    )
    if not np.isfinite(rows[["estimate", "std_error"]].to_numpy()).all():
        raise _unfit("the predictors say the same thing twice, or separate the outcome perfectly")
    return rows


def _unfit(text: str) -> PermanentFailure:
    return PermanentFailure("MODEL_UNFIT", f"the model cannot be fitted: {text}")
