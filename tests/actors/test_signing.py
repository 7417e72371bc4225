"""Secrets of notifications: where they come from, whose they are, and how they change."""

import base64
from pathlib import Path

import pytest

from jobrunner.actors.features.notifications.secrets import KeyFile, key_file_beside, seals
from jobrunner.actors.features.notifications.signing import Seals, checked_secrets, derived, sealed
from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import NotifySettings, WorkflowSettings
from jobrunner.core.declaration.happenings import UNASKED
from jobrunner.core.declaration.workflow import Definition, Notify, Workflow
from jobrunner.errors import Misconfigured
from jobrunner.ports import SystemFiles
from tests.standing import CUTX

FILES = SystemFiles()
FIRST, SECOND, THIRD = (
    f"{word}-secret-of-the-service-long-enough" for word in ("1st", "2nd", "3rd")
)


def test_it_signs_as_the_standard_says() -> None:
    """Worked out by hand from the text of Standard Webhooks 1.0.0: openssl agrees."""
    secret = "whsec_" + base64.b64encode(bytes(range(32))).decode()
    headers = sealed([secret], "msg_1", 1700000000, b'{"a":1}')
    assert headers == {
        "webhook-id": "msg_1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": "v1,AMaOha7DUT/0J0JMycRuYOBSvbx3WtwLd2khXXbaVj4=",
    }


def test_everybody_has_a_secret_of_their_own() -> None:
    known = Seals(lambda: [FIRST])
    owners = ["ada", "eve", "workflow:ada", "workflow:eve"]
    found = {known.of(owner)[0] for owner in owners}
    assert len(found) == 4
    for secret in found:
        assert checked_secrets("X", secret) == [secret]


def test_an_endpoint_may_have_its_own(tmp_path: Path) -> None:
    mine = derived(FIRST, "x")
    environ = {"OPS": f"{mine} {derived(SECOND, 'x')}", "MASTERS": FIRST}
    known = seals(KeyFile("nowhere", FILES), ["MASTERS"], {"workflow:w": "OPS"}, environ)
    assert known.of("workflow:w")[0] == mine
    assert known.of("ada") == [derived(FIRST, "ada")]


@pytest.mark.parametrize(
    "text",
    ["", "plain", "whsec_", "whsec_!!", "whsec_" + "QUJD" * 40, "whsec_QUJD", " ".join("abcde")],
)
def test_what_is_no_secret_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        checked_secrets("OPS", text)
    assert "OPS" in str(refused.value)
    assert not text or text not in str(refused.value).replace("whsec_", "")


@pytest.mark.parametrize("environ", [{}, {"MASTERS": "short"}])
def test_a_variable_that_is_not_there_stops_the_start(environ: dict[str, str]) -> None:
    with pytest.raises(Misconfigured, match="MASTERS"):
        seals(KeyFile("nowhere", FILES), ["MASTERS"], {}, environ)


def test_a_file_is_made_once_and_privately(tmp_path: Path) -> None:
    file = key_file_beside(str(tmp_path / "jobs.db"), FILES)
    file.make(FIRST)
    file.make(SECOND)
    assert file() == [FIRST]
    assert Path(file.path).stat().st_mode & 0o777 == 0o600


def test_a_rotation_keeps_one_old_secret(tmp_path: Path) -> None:
    file = key_file_beside(str(tmp_path / "jobs.db"), FILES)
    file.make(FIRST)
    assert file() == [FIRST]
    file.rotate(SECOND)
    assert file() == [SECOND, FIRST]
    file.rotate(THIRD)
    assert file() == [THIRD, SECOND]


def test_a_file_that_is_away_counts_as_it_was(tmp_path: Path) -> None:
    file = key_file_beside(str(tmp_path / "jobs.db"), FILES)
    with pytest.raises(Misconfigured, match="cannot be read"):
        file()
    file.make(FIRST)
    before = file()
    Path(file.path).unlink()
    assert file() == before


@pytest.mark.parametrize("text", ["", "short\n", "\n".join("x" * 30 for _ in range(5))])
def test_a_file_that_says_nothing_useful_is_named(tmp_path: Path, text: str) -> None:
    file = key_file_beside(str(tmp_path / "jobs.db"), FILES)
    Path(file.path).write_text(text)
    with pytest.raises(Misconfigured, match=r"notify\.secret"):
        file()


# ---------------------------------------------------------------- the settings


def laid(**notify: object) -> tuple[Workflow, tuple[str, ...]]:
    settings = WorkflowSettings(notify=NotifySettings(**notify))  # type: ignore[arg-type]
    return laid_over(CUTX.definition.workflow, settings)


def test_an_operators_settings_replace_whatever_a_declaration_says() -> None:
    found, faults = laid(url="http://ops.internal:9000/x?y=z", on=("ended",))
    assert not faults
    assert found.notify == Notify("http://ops.internal:9000/x?y=z", ("ended",))
    again, faults = laid_over(found, WorkflowSettings())
    assert not faults
    assert again.notify == Notify("", UNASKED)


def test_a_declaration_without_it_is_the_one_that_jobs_have_pinned() -> None:
    workflow = CUTX.definition.workflow
    assert b'"notify"' not in Definition(workflow).encoded


@pytest.mark.parametrize(
    "url",
    ["ops", "ftp://x/", "https://a@b/", "https://a:b@c/", "https://x/#y", "https:// x", "https://"],
)
def test_an_url_that_is_none_is_a_fault(url: str) -> None:
    _, faults = laid(url=url)
    assert "notify.url" in faults[0]


def test_a_secret_for_nobody_is_a_fault() -> None:
    assert laid(secret_env="OPS")[1]
