"""The rules for Prometheus: its own tool understands them, each is heard when it should be and only
then, and they ask for nothing that a service does not show."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.worlds import ILL, WELL, Series
from tests.docs.pages import code, rows

RULES = Path(__file__).parents[2] / "deploy" / "alerts.yml"
TEXT = RULES.read_text(encoding="utf-8")
ALERT = re.compile(
    r"^      - alert: (\w+)\n(.*?)(?=^      - alert|^  - name|\Z)", re.MULTILINE | re.DOTALL
)
PROMTOOL = shutil.which("promtool")
judged = pytest.mark.skipif(not PROMTOOL, reason="make system installs promtool (prometheus)")


def alerts() -> dict[str, str]:
    """The text of each, by its name."""
    return dict(ALERT.findall(TEXT))


def promtool(*arguments: str) -> str:
    assert PROMTOOL is not None
    said = subprocess.run(
        [PROMTOOL, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    return said.stdout


def severity(name: str) -> str:
    found = re.search(r"severity: (\w+)", alerts()[name])
    assert found, name
    return found[1]


def labels(text: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+)="([^"]*)"', text))


@judged
def test_promtool_understands_them() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", str(RULES))


def test_each_says_what_is_so_and_what_to_do() -> None:
    assert len(alerts()) == TEXT.count("- alert:")
    for name, text in alerts().items():
        assert re.search(r'^          summary: "[^"]{20,}"$', text, re.MULTILINE), name
        assert re.search(r'^          cure: "[^"]{40,}"$', text, re.MULTILINE), name
        assert severity(name) in ("page", "ticket"), name


def test_the_page_lists_each() -> None:
    told = {code(name): whose for name, whose, _ in rows("docs/monitoring.md", "alert")}
    assert told == {name: severity(name) for name in alerts()}


def test_each_is_tried() -> None:
    assert alerts().keys() == ILL.keys()


def world(series: Series, cases: list[dict[str, Any]]) -> dict[str, Any]:
    put = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": put, "alert_rule_test": cases}


def heard(tmp_path: Path, *worlds: dict[str, Any]) -> None:
    """Let promtool see these worlds. What the rules say in words is not repeated here, so they are
    tried without it."""
    bare = re.sub(r"^        annotations:\n(          .*\n)+", "", TEXT, flags=re.MULTILINE)
    (tmp_path / "alerts.yml").write_text(bare)
    tried = {"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": worlds}
    (tmp_path / "tried.yml").write_text(json.dumps(tried))  # which YAML can read
    promtool("test", "rules", str(tmp_path / "tried.yml"))


@judged
def test_none_is_heard_while_all_is_well(tmp_path: Path) -> None:
    """Backups are not wanted here, and retention is behind and catches up."""
    times = ("1h", "12h", "23h")
    heard(
        tmp_path,
        world(WELL, [{"eval_time": at, "alertname": name} for name in alerts() for at in times]),
    )


@judged
@pytest.mark.parametrize("name", ILL)
def test_each_is_heard_when_it_should_be(name: str, tmp_path: Path) -> None:
    at, shown, series = ILL[name]
    expected = [{"exp_labels": {"severity": severity(name), **labels(shown)}}]
    heard(
        tmp_path,
        world(series, [{"eval_time": at, "alertname": name, "exp_alerts": expected}]),
        world({}, [{"eval_time": at, "alertname": name}]),
    )
