"""What is remembered of plugins that fail as they run, on its way to the log."""

from typing import Any, cast

import pytest

from jobrunner.actors.features.plugins import KEPT_MS, PluginTroubles

CRASHED = {"code": "STAGE_CRASHED", "workflow": "mill", "stage": "mill.grind", "job_id": "1"}
NOTED: list[tuple[str, dict[str, Any], tuple[str, str, str]]] = [
    ("stage.crashed", CRASHED, ("stage", "mill.grind", "mill")),
    ("hook.failed", {"hook": "record", "job_id": "2"}, ("hook", "record", "")),
    ("plugin.fault", {"workflow": "mill", "function": "sift"}, ("function", "sift", "mill")),
    ("companion.failed", {"workflow": "mill"}, ("companion", "mill", "mill")),
    ("panel.silent", {"workflow": "mill", "user_id": "ann"}, ("panel", "mill", "mill")),
]


class Moment:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now(self) -> int:
        return self.ms


class Heard:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.clock: Any = Moment()
        self.troubles = PluginTroubles(
            self.hear, cast(Any, self.clock), lambda text: text.replace("key", "…")
        )

    def hear(self, event: str, level: str = "info", **fields: Any) -> None:
        self.lines.append(event)


@pytest.mark.parametrize(("event", "fields", "part"), NOTED, ids=[one[0] for one in NOTED])
def test_the_last_fault_of_each_part_is_kept_for_an_hour(
    event: str, fields: dict[str, Any], part: tuple[str, str, str]
) -> None:
    heard = Heard()
    heard.troubles(event, "error", **fields, error="the key is wrong")
    heard.clock.ms += 1
    heard.troubles(event, "error", **fields, error="gone")
    (found,) = heard.troubles.latest()
    assert (found.part, found.error, found.job_id) == (part, "gone", fields.get("job_id"))
    assert heard.lines == [event, event], "the log has each"
    heard.clock.ms += KEPT_MS
    assert heard.troubles.latest() == []


def test_no_secret_is_in_it_and_the_newest_is_first() -> None:
    heard = Heard()
    for event, fields, _ in NOTED:
        heard.troubles(event, "error", **fields, error="the key is wrong")
    found = heard.troubles.latest()
    assert [one.part for one in found] == [part for _, _, part in reversed(NOTED)]
    assert {one.error for one in found} == {"the … is wrong"}
    event, fields, part = NOTED[1]
    heard.troubles(event, "error", **fields, error="again")
    assert [one.part for one in heard.troubles.latest()][:2] == [part, NOTED[-1][2]]


def test_a_function_that_let_its_job_go_on_is_no_trouble() -> None:
    """One that only refused somebody has let nothing pass, whatever else moved that job."""
    heard = Heard()
    for job_id in ("1", "2", "3"):
        fields = {"workflow": "mill", "function": f"sift{job_id}", "job_id": job_id}
        heard.troubles("plugin.fault", "error", **fields)
    for job_id in ("1", "3"):
        heard.troubles("job.put_aside", job_id=job_id)
    for job_id in ("1", "2"):
        heard.troubles("job.transition", job_id=job_id)
    assert [one.part.name for one in heard.troubles.latest()] == ["sift3", "sift2"]
    assert len(heard.lines) == 7, "the log has each"


def test_what_a_stage_foresees_is_no_fault_of_its_plugin() -> None:
    heard = Heard()
    heard.troubles("stage.crashed", "error", **CRASHED | {"code": "NETWORK"})
    heard.troubles("job.stuck", "error", workflow="mill")
    assert heard.troubles.latest() == []


def test_a_companion_that_is_open_again_is_no_trouble() -> None:
    heard = Heard()
    for workflow in ("mill", "oven"):
        heard.troubles("companion.failed", "error", workflow=workflow, error="no port")
    heard.troubles("companion.opened", workflow="mill")
    assert [one.part.name for one in heard.troubles.latest()] == ["oven"]
