"""Schedules in the settings: every key, and every fault with its cure."""

from pathlib import Path
from typing import Any

import pytest

from jobrunner.config.reading import load
from jobrunner.config.schedules import schedules_of, unfit_schedules
from jobrunner.config.settings import Config, ScheduleSettings
from jobrunner.core.declaration.workflow import Definition
from jobrunner.errors import Misconfigured
from tests.core.workshop import RELAY, WORKSHOP

LEAST = {"workflow": '"workshop"', "user": '"ann"', "cron": '"@daily"'}
KEYS = [
    ("workflow", '"hello"', "hello"),
    ("job_type", '"tts"', "tts"),
    ("params", '{ name = "Ada" }', {"name": "Ada"}),
    ("user", '"bob"', "bob"),
    ("cron", '"30 4 * * 1-5"', "30 4 * * 1-5"),
    ("every", '"10m"', 600),
    ("zone", '"Europe/Berlin"', "Europe/Berlin"),
    ("overlap", '"queue"', "queue"),
    ("catch_up", '"2h"', 7200),
    ("catch_up_policy", '"each"', "each"),
    ("jitter", '"30s"', 30),
    ("labels", '{ team = "blue" }', {"team": "blue"}),
    ("priority", "3", 3),
    ("notify_url", '"https://ops.example/"', "https://ops.example/"),
    ("notify_on", '["ended"]', ("ended",)),
]


def written(tmp_path: Path, *without: str, **keys: str) -> Path:
    said = {**LEAST, **keys}
    lines = [f"{key} = {value}" for key, value in said.items() if key not in without]
    (tmp_path / "config.toml").write_text("\n".join(["[schedules.a]", *lines, ""]))
    return tmp_path / "config.toml"


def beside(key: str, toml: str) -> dict[str, str]:
    """What a key makes no sense without."""
    more = {"notify_url": '"https://ops.example/"'} if key == "notify_on" else {}
    return {key: toml} | more


@pytest.mark.parametrize(("key", "toml", "meant"), KEYS, ids=[key for key, _, _ in KEYS])
def test_every_key_can_be_set(key: str, toml: str, meant: Any, tmp_path: Path) -> None:
    without = ("cron",) if key == "every" else ()
    config = load(written(tmp_path, *without, **beside(key, toml)), {})
    assert getattr(config.schedules["a"], key) == meant
    if isinstance(meant, dict):
        return
    variable = f"JOBRUNNER_SCHEDULES__A__{key.upper()}"
    text = toml[1:-1] if toml.startswith('"') else toml
    path = written(tmp_path, *without, **{k: v for k, v in beside(key, toml).items() if k != key})
    assert getattr(load(path, {variable: text}).schedules["a"], key) == meant


def test_tables_of_a_schedule_are_set_key_by_key(tmp_path: Path) -> None:
    variables = {"PARAMS__NAME": "Bob", "LABELS__TEAM": "red"}
    environ = {f"JOBRUNNER_SCHEDULES__A__{name}": text for name, text in variables.items()}
    named = load(written(tmp_path), environ).schedules["a"]
    assert (named.params, named.labels) == ({"name": "Bob"}, {"team": "red"})


def test_the_keys_above_are_all_keys() -> None:
    assert {key for key, _, _ in KEYS} == set(ScheduleSettings.__struct_fields__)


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    (schedule,) = schedules_of(load(written(tmp_path), {}))
    assert (schedule.name, schedule.zone, schedule.overlap) == ("a", "UTC", "skip")
    assert (schedule.catch_up_s, schedule.catch_up_policy, schedule.jitter_s) == (3600, "latest", 0)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"cron": '"61 * * * *"'}, "schedules.a.cron = '61 * * * *': bad minute; write minute"),
        ({"cron": '"@nightly"'}, "schedules.a.cron = '@nightly': there is no such name"),
        ({"every": '"10m"'}, "schedules.a.cron = '@daily': say when: either cron or every"),
        ({"cron": '""'}, "schedules.a.cron = '': say when: either cron or every"),
        ({"zone": '"Mars/X"'}, "schedules.a.zone = 'Mars/X': there is no such time zone"),
        ({"user": '""'}, "schedules.a.user = '': must be whose jobs these are"),
        ({"workflow": '""'}, "schedules.a.workflow: must be the name of a workflow"),
        ({"catch_up": "1"}, "schedules.a.catch_up: must be at least 10 s"),
        ({"jitter": '"400d"'}, "schedules.a.jitter: must be at most an hour"),
        ({"catch_up": '"400d"'}, "schedules.a.catch_up: must be at most a year"),
        ({"overlap": '"often"'}, "schedules.a.overlap = 'often': must be \"skip\""),
        ({"notify_on": '["ended"]'}, "schedules.a.notify_on: says what notify_url is told"),
        ({"labels": '{ "a:b" = "c" }'}, "schedules.a.labels.a:b: must be a short name"),
    ],
)
def test_every_fault_is_named(keys: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        load(written(tmp_path, **keys), {})
    (fault,) = caught.value.faults
    assert fault.startswith(said)


def loaded(name: str) -> Definition | None:
    return WORKSHOP if name == WORKSHOP.workflow.name else None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"workflow": "worksop"}, ["workflow: 'worksop' is not installed, and it waits; did you"]),
        ({"workflow": RELAY.workflow.name}, ["is refused; it waits until that is loaded"]),
        ({"job_type": "none"}, ["job_type: workshop has no job type 'none'; it has:"]),
        ({"params": {"wood": 1}}, ["params.wood: Expected `str`, got `int`"]),
    ],
)
def test_what_does_not_fit_is_named_and_keeps_nobody(
    changes: dict[str, Any], said: list[str]
) -> None:
    known = [RELAY.workflow.name, WORKSHOP.workflow.name]
    named = ScheduleSettings(
        **{"workflow": WORKSHOP.workflow.name, "user": "a", "cron": "@daily", **changes}
    )
    found = unfit_schedules(Config(schedules={"a": named}), known, loaded)
    assert len(found) == len(said)
    assert all(one in fault for one, fault in zip(said, found, strict=True)), found
