"""Both stages alone: from a file and some words to a proposal, and from a plan to results."""

import io
import os
from typing import Any

import anyio
import pandas as pd
import pytest
from jobrunner_ss.demo import QUESTION, _table
from jobrunner_ss.drafting import draft, proposed
from jobrunner_ss.params import SsParams
from jobrunner_ss.running import run
from PIL import Image

from jobrunner.testing import run_stage, run_stage_live

PLAN = {"plan_id": "p" * 64, "fingerprint": "f", "answers": {}}


def drafted(requirement: str, content: str) -> Any:
    tried = run_stage(
        draft,
        SsParams(requirement=requirement),
        artifacts={"input": "/assets/a/content"},
        files={"input": content.encode()},
    )
    assert tried.outcome == "done", tried.failure
    return tried.artifacts["draft"]


def ran(content: bytes, proposal: Any, answers: dict[str, Any] | None = None) -> Any:
    async def alone() -> Any:
        return await run_stage_live(
            run,
            SsParams(requirement="Explain it"),
            artifacts={
                "input": "/assets/a/content",
                "plan": {**PLAN, "answers": answers or {}},
                "draft": proposal,
            },
            files={"input": content},
        )

    return anyio.run(alone)


def files(tried: Any) -> dict[str, bytes]:
    by_url = {asset.url: os.path.basename(asset.storage_path) for asset in tried.assets}
    return {by_url[url]: content for url, content in tried.files.items()}


SALES = "sales,region,month,note\n" + "".join(
    f"{n % 17}.5,{'nse'[n % 3]},{n % 12 + 1},note {n}\n" for n in range(60)
)


@pytest.mark.parametrize(
    ("words", "kind", "outcome"),
    [
        ("Describe the table", "descriptive", ""),
        ("", "descriptive", ""),
        ("Sum the sales by region and month", "descriptive", ""),
        ("What is the effect of month on the sales?", "ols", "sales"),
        ("explain sales by month and region", "ols", "sales"),
        ("controls and tools", "descriptive", ""),
    ],
)
def test_the_words_say_what_is_wanted(words: str, kind: str, outcome: str) -> None:
    analysis = drafted(words, SALES)["analysis"]
    assert (analysis["kind"], analysis["outcome"]) == (kind, outcome)


def test_groups_are_proposed_and_computed() -> None:
    proposal = drafted("Sum the sales by region and month", SALES)
    assert proposal["analysis"]["by"] == ["region", "month"]
    assert proposal["analysis"]["measures"] == ["sales"]
    tried = ran(SALES.encode(), proposal)
    assert tried.outcome == "done", tried.failure
    groups = pd.read_csv(io.BytesIO(next(v for k, v in files(tried).items() if "groups" in k)))
    frame = pd.read_csv(io.StringIO(SALES))
    wanted = frame.groupby(["region", "month"])["sales"].sum()
    assert groups["sales: sum"].tolist() == pytest.approx(wanted.tolist())
    assert groups["rows"].sum() == 60


def test_the_same_words_over_the_same_table_are_the_same_proposal() -> None:
    assert drafted(QUESTION, _table()) == drafted(QUESTION, _table())


def test_what_cannot_be_guessed_is_asked_for() -> None:
    columns = [{"name": "note", "kind": "text"}, {"name": "size", "kind": "numeric", "mean": 1}]
    proposal = proposed(columns, 10, "what is the effect of the weather?")
    assert [one["id"] for one in proposal["questions"] if one["required"]] == ["outcome"]


def test_a_column_named_by_signs_is_not_everywhere() -> None:
    columns = [{"name": "%", "kind": "numeric", "mean": 1}]
    assert proposed(columns, 10, "explain nothing")["analysis"]["outcome"] == ""


def test_a_draft_wants_a_table() -> None:
    tried = run_stage(draft, SsParams(requirement="x"))
    assert tried.failure is not None
    assert tried.failure.code == "INPUT_MISSING"


def test_results_are_tables_a_figure_and_a_report() -> None:
    """The price was made to cost three sales a unit, less what the noise hides."""
    tried = ran(_table().encode(), drafted(QUESTION, _table()))
    assert tried.outcome == "done", tried.failure
    assert [asset.asset_type for asset in tried.assets] == ["table", "table", "figure", "report"]
    model = tried.artifacts["results"]["model"]
    rows = {row["term"]: row for row in model["coefficients"]}
    assert -3.1 < rows["price"]["estimate"] < -2.5
    assert rows["price"]["p_value"] < 1e-9
    made = files(tried)
    report = next(made[name] for name in made if name.endswith(".md")).decode()
    assert "Linear regression of `sales` over 240 rows" in report
    picture = Image.open(io.BytesIO(next(made[name] for name in made if name.endswith(".png"))))
    assert picture.size[0] > 600
    assert any("240 rows" in line for line in tried.log)
    assert any("statsmodels" in line for line in tried.log)


def test_hostile_names_are_text_everywhere() -> None:
    """A formula for the figure, markup for the report, a script no font knows."""
    names = ["$x_{", "a|b`c<i>", "价格"]
    rows = "".join(f"{n},{n * n % 7},{n % 5}\n" for n in range(50))
    content = ",".join(names) + "\n" + rows
    proposal = {"analysis": {"kind": "ols", "outcome": names[0], "predictors": names[1:]}}
    tried = ran(content.encode(), proposal)
    assert tried.outcome == "done", tried.failure
    report = next(data for name, data in files(tried).items() if name.endswith(".md")).decode()
    assert "a\\|b\\`c&lt;i>" in report


def test_a_long_table_says_that_it_goes_on() -> None:
    content = "n,k\n" + "".join(f"{n % 45},{n}\n" for n in range(90))
    proposal = {"analysis": {"kind": "descriptive", "by": ["n"], "measures": ["k"]}}
    made = files(ran(content.encode(), proposal))
    report = next(made[name] for name in made if name.endswith(".md")).decode()
    assert "15 more, all of them in `groups.csv`" in report


@pytest.mark.parametrize(
    ("proposal", "answers", "code"),
    [
        ({"analysis": {"kind": "ols", "outcome": "profit", "predictors": ["month"]}}, {},
         "CONTRACT_COLUMN_NOT_FOUND"),
        ({"analysis": {"kind": "ols"}}, {}, "MODEL_UNFIT"),
        ("just words", {"kind": "ols", "outcome": "sales", "predictors": ["note"]}, "MODEL_UNFIT"),
        ("just words", {"by": ["note"], "measures": ["region"]}, "MODEL_UNFIT"),
    ],
)  # fmt: skip
def test_a_plan_that_does_not_fit_fails_for_good(
    proposal: Any, answers: dict[str, Any], code: str
) -> None:
    tried = ran(SALES.encode(), proposal, answers)
    assert tried.outcome == "failed"
    assert (tried.failure.code, tried.failure.retryable) == (code, False)


def test_no_plan_no_run() -> None:
    """S34"""
    tried = run_stage(run, SsParams())
    assert tried.failure is not None
    assert (tried.failure.code, tried.failure.retryable) == ("PLAN_MISSING", False)
