"""Schedules from the command line, over a running service."""

import json
from pathlib import Path

from tests.cli.conftest import Command


def added(online: Command, name: str, *more: str) -> None:
    code, _, err = online("schedule", "add", name, "howera", "--user", "ada", *more)
    assert code == 0, err


def test_one_is_made_listed_shown_and_removed(online: Command) -> None:
    added(online, "nightly", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--label", "a=b")
    assert "nightly" in online("schedule", "list", "-o", "ids")[1].split()
    table = online("schedule", "list")[1]
    assert "IN_ZONE" in table
    assert "Europe/Berlin" in table
    shown = json.loads(online("schedule", "show", "nightly", "--next", "7", "-o", "json")[1])
    assert len(shown["next"]) == 7
    assert (shown["labels"], shown["zone"]) == ({"a": "b"}, "Europe/Berlin")
    page = online("schedule", "show", "nightly")[1]
    assert "T02:30:00+0" in page
    assert "FIRES_AT" in page
    assert online("schedule", "add", "nightly", "howera", "--user", "ada", "--every", "10m")[0] == 1
    added(online, "nightly", "--every", "10m", "--jitter", "30s", "--replace")
    changed = json.loads(online("schedule", "show", "nightly", "-o", "json")[1])
    assert (changed["every"], changed["jitter"], changed["cron"]) == (600, 30, None)
    assert online("schedule", "remove", "nightly")[0] == 0
    assert online("schedule", "show", "nightly")[0] == 4


def test_one_is_paused_resumed_and_triggered(online: Command) -> None:
    added(online, "weekly", "--cron", "@weekly", "--overlap", "allow")
    assert "tea" in online("schedule", "pause", "weekly", "--reason", "tea")[1]
    job = online("schedule", "trigger", "weekly", "--key", "k", "-o", "ids")[1].split()
    assert online("schedule", "trigger", "weekly", "--key", "k", "-o", "ids")[1].split() == job
    assert online("job", "list", "--schedule", "weekly", "-o", "ids")[1].split() == job
    assert online("schedule", "firings", "weekly", "-o", "ids")[1].split() == job
    assert "fired" in online("schedule", "firings", "weekly")[1]
    assert "active" in online("schedule", "resume", "weekly")[1]


def test_times_that_are_over_are_made_up_for(online: Command) -> None:
    added(online, "daily", "--cron", "@daily")
    span = ("--from", "2026-03-01T00:00:00Z", "--to", "2026-03-04T00:00:00Z")
    dry = json.loads(online("schedule", "backfill", "daily", *span, "--dry-run", "-o", "json")[1])
    assert (dry["total"], dry["fired"]) == (3, 0)
    made = online("schedule", "backfill", "daily", *span, "-o", "ids")[1].split()
    assert len(made) == 3
    assert online("schedule", "backfill", "daily", *span, "-o", "ids")[1].split() == made
    assert online("schedule", "backfill", "daily", *span)[1].count("same") == 3


def test_whatever_is_wrong_is_said(online: Command) -> None:
    code, _, err = online("schedule", "add", "x", "howera", "--user", "ada", "--cron", "61 * * * *")
    assert (code, "bad minute" in err) == (1, True)
    assert online("schedule", "trigger", "nobody")[0] == 4
    assert online("schedule", "add", "x", "howera", "--user", "ada", "--every", "soon")[0] == 2


NAMED = '[schedules.nightly]\nworkflow = "hello"\nuser = "ann"\n'


def test_config_check_and_doctor_name_what_keeps_one_from_running(command: Command) -> None:
    Path("config.toml").write_text(f'{NAMED}cron = "@daily"\nparams = {{ colour = 1 }}\n')
    code, out, err = command("config", "check")
    assert (code, err) == (1, "")
    assert "schedules.nightly.params: Object contains unknown field `colour`" in out
    assert "schedules.nightly.params" in command("doctor")[1]
    Path("config.toml").write_text(NAMED.replace("hello", "helo") + 'cron = "@daily"\n')
    assert "'helo' is not installed, and it waits; did you mean 'hello'?" in command(
        "config", "check"
    )[1]  # fmt: skip


def test_config_check_says_what_keeps_a_service_from_starting(command: Command) -> None:
    Path("config.toml").write_text(f'{NAMED}cron = "0 0 30 2 *"\nzone = "Mars/X"\n')
    code, _, err = command("config", "check")
    assert code == 1
    assert "schedules.nightly.cron = '0 0 30 2 *': bad day-of-month" in err
    assert "schedules.nightly.zone = 'Mars/X': there is no such time zone" in err


def test_config_show_prints_it_as_it_can_be_used(command: Command) -> None:
    Path("config.toml").write_text(f'{NAMED}every = "10m"\n')
    out = command("config", "show")[1]
    assert "schedules.nightly.every = 600.0" in out
    Path("config.toml").write_text(out)
    shown = command("config", "show")
    assert (shown[0], "schedules.nightly.every = 600.0" in shown[1]) == (0, True)
