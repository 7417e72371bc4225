"""An operator's settings laid over a declaration."""

from typing import Any

import msgspec
import pytest

from jobrunner.config.overrides import laid_over, unknown_plugins, unknown_workflows
from jobrunner.config.settings import (
    Config,
    NotifySettings,
    PluginsSection,
    QuotaSettings,
    RetrySettings,
    WorkflowSettings,
)
from jobrunner.core.declaration.workflow import (
    Deadline,
    Edge,
    JobType,
    Quota,
    Retry,
    State,
    Workflow,
)

DECLARED = Workflow(
    name="parcel",
    version="1",
    initial="Waiting-Room",
    states=(
        State("Waiting-Room", "waiting", on_demand="parcel.sketch", limit_s=5),
        State("in_line", "queued", deadline=Deadline(0, ("lost",))),
        State(
            "moving",
            "active",
            stage={"small": "parcel.bike", "big": "parcel.truck"},
            limit_s=60,
            retry=Retry("inside", ("lost",)),
        ),
        State("checked", "active", stage={"*": "parcel.check"}, deadline=Deadline(9, ("lost",))),
        State("lost", "final"),
    ),
    edges=(Edge("*", "lost", ("engine",)),),
    job_types=(JobType("small", "Params", 1), JobType("big", "Params", 5)),
    quota=Quota(open_jobs=3, per_minute=2),
    settings={"api": {"url": "https://example.org", "retries": 2}, "auto-edit": False},
)


def changed(settings: WorkflowSettings) -> Workflow:
    applied, found = laid_over(DECLARED, settings)
    assert not found
    return applied


def state(workflow: Workflow, name: str) -> State:
    return next(state for state in workflow.states if state.name == name)


def faults(settings: WorkflowSettings) -> tuple[str, ...]:
    return laid_over(DECLARED, settings)[1]


def test_nothing_set_changes_nothing() -> None:
    assert changed(WorkflowSettings()) == DECLARED


def test_a_star_binds_every_active_state_and_the_particular_wins() -> None:
    applied = changed(
        WorkflowSettings(
            stages={"moving.big": "parcel.ship", "*": "external", "moving": "parcel.walk"}
        )
    )
    assert state(applied, "moving").stage == {"*": "parcel.walk", "big": "parcel.ship"}
    assert state(applied, "checked").stage == {"*": "external"}
    assert state(applied, "Waiting-Room").on_demand == "external"
    assert [s.name for s in applied.states] == [s.name for s in DECLARED.states]


def test_one_job_type_is_bound_and_the_others_stay() -> None:
    applied = changed(WorkflowSettings(stages={"moving.big": "external"}))
    assert state(applied, "moving").stage == {"small": "parcel.bike", "big": "external"}


def test_a_stage_on_demand_can_be_another_one_and_an_outside_worker() -> None:
    applied = changed(WorkflowSettings(stages={"waiting_room": "parcel.paint"}))
    assert state(applied, "Waiting-Room").on_demand == "parcel.paint"
    applied = changed(WorkflowSettings(stages={"waiting_room": "external"}))
    assert state(applied, "Waiting-Room").on_demand == "external"


def test_a_declared_deadline_keeps_its_path() -> None:
    applied = changed(WorkflowSettings(deadline={"in_line": 60, "checked": 0}))
    assert state(applied, "in_line").deadline == Deadline(60, ("lost",))
    assert state(applied, "checked").deadline == Deadline(0, ("lost",))
    assert state(applied, "checked").limit_s == 0


def test_a_deadline_without_a_path_is_the_attempts_limit_too() -> None:
    moving = state(changed(WorkflowSettings(deadline={"moving": 30})), "moving")
    assert (moving.deadline, moving.limit_s) == (Deadline(30), 30)
    moving = state(
        changed(WorkflowSettings(deadline={"moving": 30}, limit={"moving": 7})), "moving"
    )
    assert (moving.deadline, moving.limit_s) == (Deadline(30), 7)
    moving = state(changed(WorkflowSettings(deadline={"moving": 0})), "moving")
    assert (moving.deadline, moving.limit_s) == (None, 0)


def test_retries_change_in_part() -> None:
    applied = changed(WorkflowSettings(retry={"moving": RetrySettings(max=5, cap=9)}))
    assert state(applied, "moving").retry == Retry("inside", ("lost",), max=5, cap_s=9)


def test_money_quota_and_lease() -> None:
    applied = changed(
        WorkflowSettings(prices={"BIG": 0}, quota=QuotaSettings(open_jobs=0, per_day=4), lease=9)
    )
    assert [job_type.price for job_type in applied.job_types] == [1, 0]
    assert applied.quota == Quota(open_jobs=0, per_minute=2, per_day=4)
    assert applied.lease_s == 9


def test_settings_are_merged_table_by_table_under_their_declared_names() -> None:
    given = {"API": {"url": "http://127.0.0.1:1"}, "auto_edit": True, "new": 1}
    assert changed(WorkflowSettings(settings=given)).settings == {
        "api": {"url": "http://127.0.0.1:1", "retries": 2},
        "auto-edit": True,
        "new": 1,
    }


def test_everything_that_does_not_fit_is_told_at_once() -> None:
    assert faults(
        WorkflowSettings(
            stages={"moving.tiny": "x", "lost": "x", "movin": "x"},
            retry={"checked": RetrySettings(max=2)},
            deadline={"Waiting-Room": 3},
            limit={"in_line": 3},
            prices={"bigg": 2},
        )
    ) == (
        "workflows.parcel.stages.lost: is a final state: no stage runs there",
        "workflows.parcel.stages.movin: no such state; did you mean 'moving'?",
        "workflows.parcel.stages.tiny: no such job type; known: big, small",
        (
            "workflows.parcel.deadline.Waiting-Room: declares no deadline: "
            "there is nowhere for it to lead"
        ),
        "workflows.parcel.limit.in_line: is a queued state: no attempt runs there",
        "workflows.parcel.retry.checked: declares no retries to adjust",
        "workflows.parcel.prices.bigg: no such job type; did you mean 'big'?",
    )


def test_sections_for_workflows_that_nobody_declares_are_named() -> None:
    config = Config(workflows={"parcl": WorkflowSettings(), "PARCEL": WorkflowSettings()})
    assert unknown_workflows(config, ["parcel"]) == (
        "workflows.parcl: no such workflow; did you mean 'parcel'?",
    )


def test_plugins_that_nobody_brings_are_named() -> None:
    config = Config(plugins=PluginsSection(enabled=("*", "parcel", "parcl")))
    assert unknown_plugins(config, ["parcel"]) == (
        "plugins.enabled = 'parcl': no plugin brings this name; did you mean 'parcel'?",
    )


NO_DECLARATIONS = {"retention", "record"}


@pytest.mark.parametrize("name", sorted({*WorkflowSettings.__struct_fields__} - NO_DECLARATIONS))
def test_every_setting_reaches_the_declaration(name: str) -> None:
    """A key that is read and then forgotten would promise what it does not do. Retention is about
    jobs that are over, and ``record`` about what is stored; neither is a declaration's."""
    values: dict[str, Any] = {
        "stages": {"moving": "external"},
        "retry": {"moving": RetrySettings(max=9)},
        "deadline": {"moving": 1.5},
        "limit": {"moving": 1.5},
        "quota": QuotaSettings(per_day=1),
        "prices": {"big": 7},
        "lease": 1.5,
        "notify": NotifySettings(url="https://hooks.example/"),
        "settings": {"new": 1},
    }
    settings = WorkflowSettings(**{name: values[name]})
    assert msgspec.json.encode(changed(settings)) != msgspec.json.encode(DECLARED)
