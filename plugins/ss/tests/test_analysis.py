"""What is computed, beside the same figures from the formulas themselves."""

import numpy as np
import pandas as pd
import pytest
from jobrunner_ss import analysis
from jobrunner_ss.analysis import Wanted

from jobrunner import PermanentFailure


def numbers(rows: int = 300) -> pd.DataFrame:
    chance = np.random.default_rng(7)
    price, size = chance.normal(10, 2, rows), chance.normal(0, 1, rows)
    region = chance.choice(["north", "south", "east"], rows)
    spread = chance.normal(0, 1, rows) * (1 + np.abs(size))
    sales = 3 - 2 * price + 0.5 * size + 4 * (region == "south") + spread
    bought = np.where(chance.random(rows) < 1 / (1 + np.exp(-(price - 10) / 2)), "yes", "no")
    return pd.DataFrame(
        {"price": price, "size": size, "region": region, "sales": sales, "bought": bought}
    )


def unfit(frame: pd.DataFrame, plan: Wanted) -> str:
    with pytest.raises(PermanentFailure) as caught:
        analysis.fitted(frame, plan)
    assert caught.value.code == "MODEL_UNFIT"
    return caught.value.detail


def test_a_line_with_robust_errors_by_the_formulas() -> None:
    """b = (X'X)⁻¹X'y, and HC1 = n/(n-k) (X'X)⁻¹ X'diag(e²)X (X'X)⁻¹."""
    frame = numbers()
    found = analysis.fitted(frame, Wanted("ols", "sales", ("price", "size")))
    terms = np.column_stack([np.ones(len(frame)), frame["price"], frame["size"]])
    inner = np.linalg.inv(terms.T @ terms)
    estimate = inner @ terms.T @ frame["sales"].to_numpy()
    left = frame["sales"].to_numpy() - terms @ estimate
    meat = (terms * left[:, None] ** 2).T @ terms
    errors = np.sqrt(np.diag(inner @ meat @ inner) * len(frame) / (len(frame) - 3))
    rows = found.coefficients
    assert list(rows["term"]) == ["const", "price", "size"]
    assert rows["estimate"].to_numpy() == pytest.approx(estimate)
    assert rows["std_error"].to_numpy() == pytest.approx(errors)
    deviation = frame["sales"] - frame["sales"].mean()
    assert found.fit["r2"] == pytest.approx(1 - (left**2).sum() / (deviation**2).sum(), rel=1e-5)
    assert (found.rows, found.left_out) == (300, 0)


def test_the_log_odds_of_a_table_of_four() -> None:
    """With one predictor of two values they are the counts' own."""
    counts = {("a", "no"): 30, ("a", "yes"): 10, ("b", "no"): 15, ("b", "yes"): 45}
    rows = [pair for pair, count in counts.items() for _ in range(count)]
    frame = pd.DataFrame(rows, columns=["group", "bought"])
    found = analysis.fitted(frame, Wanted("logit", "bought", ("group",), "nonrobust"))
    estimates = dict(zip(found.coefficients["term"], found.coefficients["estimate"], strict=True))
    assert estimates["const"] == pytest.approx(np.log(10 / 30))
    assert estimates["group_b"] == pytest.approx(np.log((45 / 15) / (10 / 30)))
    errors = dict(zip(found.coefficients["term"], found.coefficients["std_error"], strict=True))
    assert errors["group_b"] == pytest.approx(np.sqrt(1 / 30 + 1 / 10 + 1 / 15 + 1 / 45))


def test_words_are_terms_against_their_first() -> None:
    found = analysis.fitted(numbers(), Wanted("ols", "sales", ("region",)))
    means = numbers().groupby("region")["sales"].mean()
    rows = found.coefficients.set_index("term")["estimate"]
    assert list(rows.index) == ["const", "region_north", "region_south"]
    assert rows["const"] == pytest.approx(means["east"])
    assert rows["region_south"] == pytest.approx(means["south"] - means["east"])


def test_rows_with_holes_are_left_out_and_counted() -> None:
    frame = numbers()
    frame.loc[:9, "price"] = np.nan
    found = analysis.fitted(frame, Wanted("ols", "sales", ("price",)))
    assert (found.rows, found.left_out) == (290, 10)


def test_groups_are_summed() -> None:
    frame = pd.DataFrame({"region": ["n", "s", "n"], "month": [1, 1, 1], "sales": [2.0, 5.0, 4.0]})
    found = analysis.grouped(frame, Wanted(by=("region", "month"), measures=("sales",)))
    assert found.to_dict("list") == {
        "region": ["n", "s"], "month": [1, 1], "rows": [2, 1],
        "sales: sum": [6.0, 5.0], "sales: mean": [3.0, 5.0],
    }  # fmt: skip


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(PermanentFailure) as caught:
        analysis.fitted(numbers(), Wanted("ols", "sales", ("weather",)))
    assert caught.value.code == "CONTRACT_COLUMN_NOT_FOUND"
    assert "'weather'" in caught.value.detail
    assert "price, size, region" in caught.value.detail


def test_what_cannot_be_fitted_says_why() -> None:
    frame = numbers()
    frame["same"], frame["twice"] = 7.0, frame["price"] * 2 + 1
    frame["told"] = (frame["bought"] == "yes").astype(float)
    assert "'same' is the same in every row" in unfit(frame, Wanted("ols", "sales", ("same",)))
    plan = Wanted("ols", "sales", ("price", "size", "twice"))
    assert "'twice' follows from the others" in unfit(frame, plan)
    assert "nothing to explain" in unfit(frame, Wanted("ols", "same", ("price",)))
    assert "perfectly" in unfit(frame, Wanted("logit", "bought", ("told", "size")))
    assert "not numeric" in unfit(frame, Wanted("ols", "region", ("price",)))
    assert "3 values where logit needs two" in unfit(frame, Wanted("logit", "region", ("price",)))
    assert "too few" in unfit(frame.head(3), Wanted("ols", "sales", ("price", "size")))
    assert "at least one predictor" in unfit(frame, Wanted("ols", "sales"))
    assert "is no model" in unfit(frame, Wanted("forest", "sales", ("price",)))
    assert "HC9" in unfit(frame, Wanted("ols", "sales", ("price",), "HC9"))


def test_some_rows_told_perfectly_are_no_odds_either() -> None:
    """Quasi-separation: in one group the outcome is always the same."""
    frame = pd.DataFrame(
        {"group": ["a"] * 50 + ["b"] * 50, "won": ["yes", "no"] * 25 + ["no"] * 50}
    )
    assert unfit(frame, Wanted("logit", "won", ("group",)))


def test_answers_lie_over_the_proposal() -> None:
    draft = {"analysis": {"kind": "ols", "outcome": "sales", "predictors": ["price", "sales"]}}
    assert analysis.wanted(draft, {}) == Wanted("ols", "sales", ("price",))
    answers = {"predictors": "size, region", "kind": "descriptive"}
    assert analysis.wanted(draft, answers).predictors == ("size", "region")
    assert analysis.wanted("some words", {}).kind == "descriptive"
    for wrong in ({"predictors": 7}, {"predictors": [1]}, {"outcome": ["a"]}, {"kind": {}}):
        if any(wrong.values()):
            with pytest.raises(PermanentFailure):
                analysis.wanted(draft, wrong)
