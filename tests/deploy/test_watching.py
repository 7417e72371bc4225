"""What the rules and the board ask for is what a real service shows: names, labels, keys."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.test_alerts import PROMTOOL, TEXT, judged, promtool
from tests.http.serving import opened

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
MONITORING = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
BOARD = json.loads((ROOT / "deploy" / "grafana.json").read_text("utf-8"))
SELECTED = re.compile(r"\b((?:jobrunner|process)_\w+)(?:\{([^}]*)\})?")
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",), "info": ("_info",)}
PROMETHEUS = {"job", "instance"}
GRAFANA = {"$__rate_interval": "5m", "$instance": ".*", "$workflow": ".*"}


def panels() -> Iterator[dict[str, Any]]:
    yield from (panel for panel in BOARD["panels"] if panel["type"] != "row")


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def expressions() -> list[str]:
    """Of the rules, without what they say in words."""
    said = re.findall(r"^        expr: (?:\|\n((?:          .*\n)+)|(.*)\n)", TEXT, re.MULTILINE)
    return ["".join(one) for one in said]


def shown(text: str) -> tuple[set[str], set[str]]:
    """Names of series, as far as their kinds tell, and the keys of settings."""
    names, keys = set(), set()
    for family in text_string_to_metric_families(text):
        names |= {family.name + part for part in PARTS.get(family.type, ("",))}
        if family.name == "jobrunner_limit":
            keys = {sample.labels["key"] for sample in family.samples}
    return names, keys


async def test_a_service_shows_all_that_is_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path) as house:
        said = await house.nobody.get("/metrics")
    names, keys = shown(said.raw.decode())
    asked = [found for one in (*expressions(), *queries()) for found in SELECTED.findall(one)]
    assert len(asked) > 80
    assert {name for name, _ in asked} <= names
    compared = {key for _, where in asked for key in re.findall(r'\bkey="([^"]*)"', where)}
    assert compared == keys - {"limits.lag"}


async def test_labels_are_those_of_the_figures(tmp_path: Path) -> None:
    """As the documents list them: a service without jobs has no series that would tell."""
    listed = dict(re.findall(r"^\| `(jobrunner_\w+)` \| \w+ \| (.*) \|$", MONITORING, re.MULTILINE))
    for one in (*expressions(), *queries()):
        for name, where in SELECTED.findall(one):
            for label in set(re.findall(r"(\w+)=~?\"", where)) - PROMETHEUS:
                family = re.sub(r"_(bucket|sum|count)$", "", name)
                assert f"`{label}`" in listed[family], (name, label)


def test_the_board_is_bound_to_no_source() -> None:
    """Whoever imports it chooses the source; every query is asked there."""
    [source] = [one for one in BOARD["templating"]["list"] if one["type"] == "datasource"]
    chosen = {"type": source["query"], "uid": f"${{{source['name']}}}"}
    for panel in panels():
        assert panel["datasource"] == chosen, panel["title"]
        assert [target["datasource"] for target in panel["targets"]] == [chosen] * len(
            panel["targets"]
        )
    asked = [one for one in BOARD["templating"]["list"] if one["type"] == "query"]
    assert [one["datasource"] for one in asked] == [chosen] * len(asked)
    variables = {one["name"] for one in BOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(BOARD))) == variables


def test_the_board_is_laid_out() -> None:
    """No panel lies on another, none is wider than the page, and each has a title of its own."""
    assert BOARD["schemaVersion"] >= 36
    taken: dict[tuple[int, int], str] = {}
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    titles = [panel["title"] for panel in panels()]
    assert len(titles) == len(set(titles))


@judged
def test_every_query_is_one(tmp_path: Path) -> None:
    """As a rule it is read by the tool of Prometheus."""
    assert PROMTOOL
    rules = []
    for number, query in enumerate(queries()):
        for name, value in GRAFANA.items():
            query = query.replace(name, value)  # noqa: PLW2901
        rules.append({"record": f"query:{number}", "expr": query})
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))
