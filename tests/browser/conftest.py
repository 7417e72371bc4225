"""One browser and one service for a module of tests, with a job of each kind in it."""

import os
import pty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.looking import ask, browsing
from tests.browser.panelled import GOOD, install_both, install_press
from tests.served import PROGRAM, Served, clean, serving, serving_by

SETTINGS = {
    "JOBRUNNER_WORKFLOWS__HELLO__RECORD": "decisions",
    "JOBRUNNER_BACKUP__PATH": "backups",
    "JOBRUNNER_BACKUP__EVERY": "0",
}
CRON = "0 3 1,2 1 *"


@dataclass
class Shop:
    """A running service, the tokens of those who look at it, and its first words."""

    service: Served
    tokens: dict[str, str]
    greeting: str
    howera: str = ""
    done: str = ""
    batch: str = ""

    @property
    def url(self) -> str:
        url: str = self.service.url
        return url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def shop(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    with (
        terminal() as (shown, slave),
        serving_by(folder, PROGRAM, clean() | SETTINGS, slave) as service,
    ):
        found = Shop(service, {"admin": service.token}, greeting_in(shown))
        for name, role in (("user", "user"), ("reader", "reader"), ("workflow", "workflow")):
            order: dict[str, Any] = {"name": name, "role": role}
            made = ask(service, service.token, "POST", "/admin/tokens", order)
            found.tokens[role] = made["token"]
        hello = {"workflow": "hello", "params": {"name": "Ann"}, "labels": {"of": "tests"}}
        found.done = ask(service, found.tokens["user"], "POST", "/jobs", hello)["id"]
        until = f"/jobs/{found.done}?wait=60&until=ended"
        assert ask(service, found.tokens["user"], "GET", until)["status"] == "greeted"
        order = {"workflow": "howera", "labels": {"of": "tests"}}
        found.howera = ask(service, found.tokens["user"], "POST", "/jobs", order)["id"]
        jobs = [{"workflow": "hello", "params": {"name": "Bo"}}, {"workflow": "gone"}]
        batch = {"key": "of-tests", "jobs": jobs}
        found.batch = ask(service, found.tokens["user"], "POST", "/batches", batch)["id"]
        nightly = {"workflow": "hello", "user": "admin", "params": {"name": "Night"}}
        ask(service, service.token, "PUT", "/admin/schedules/nightly", {**nightly, "cron": CRON})
        yield found


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """What is shown there, and where it is written."""
    shown, slave = pty.openpty()
    try:
        yield shown, slave
    finally:
        os.close(slave)
        os.close(shown)


def greeting_in(shown: int) -> str:
    said = b""
    while b"minutes)" not in said:
        said += os.read(shown, 4096)
    return said.decode()


# What takes long is done by nobody here.
OUTSIDE = """
[workflows.howera.stages]
"*" = "external"

[workflows.ss.stages]
"*" = "external"
"""


@dataclass
class Station:
    """A service with plugins that have panels and one that asks, a user's token, and a job that is
    done with a file of it."""

    service: Served
    user: str
    greeted: str = ""
    file: str = ""

    def order(self, workflow: str, name: str) -> str:
        body = {"workflow": workflow, "params": {"name": name}}
        job: str = ask(self.service, self.user, "POST", "/jobs?wait=60", body)["id"]
        return job


@pytest.fixture(scope="session")
def station(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    folder = tmp_path_factory.mktemp("station")
    install_both(folder)
    install_press(folder)
    (folder / "config.toml").write_text(OUTSIDE)
    with serving(folder) as service:
        order = {"name": "ada", "role": "user"}
        made = ask(service, service.token, "POST", "/admin/tokens", order)
        found = Station(service, made["token"])
        found.greeted = found.order(GOOD, "Ada")
        files = ask(service, found.user, "GET", f"/jobs/{found.greeted}/assets")
        found.file = files["assets"][0]["id"]
        yield found
