"""Commands that need no service: settings, declarations, and the file while nobody holds it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobrunner.config.reading import load
from jobrunner.config.settings import Config
from jobrunner.store.migrations import latest
from tests.cli.conftest import Command
from tests.served import clean, serving

CLAN = Path(__file__).parents[1] / "whole" / "clan"


def test_help_and_version(command: Command) -> None:
    assert command("--help")[0] == 0
    assert command("version")[0] == 0
    code, out, _ = command("--version")
    assert code == 0
    assert out.strip()


def test_wrong_usage_is_2_and_says_what_was_meant(command: Command) -> None:
    for wrong, hint in (
        (["jbo"], "Did you mean"),
        (["token", "creat"], '"create"'),
        (["job", "show"], "requires an argument"),
        (["job", "show", "--outputt", "x"], "Unknown option"),
        (["token", "create", "Not A Name"], "a name is 1 to 64"),
        (["token", "create", "ann", "--credits", "-1"], "a whole number from 0"),
        (["credit", "grant", "ann", "0"], "a whole number from 1"),
        (["job", "submit", "x", "--param", "novalue"], "name=value"),
        (["job", "submit", "x", "--params", "[1]"], "must be a JSON object"),
        (["job", "submit", "x", "--params", "{"], "not JSON"),
        (["job", "submit", "x", "--params", "@missing"], "No such file"),
    ):
        code, out, err = command(*wrong)
        assert (code, out) == (2, ""), wrong
        assert hint in err, wrong


def test_wrong_settings_are_told_all_at_once(command: Command) -> None:
    Path("config.toml").write_text("[server]\nport = 'x'\nhots = 'y'\n")
    for name in (["serve"], ["config", "check"], ["token", "list"], ["workflow", "list"]):
        code, _, err = command(*name)
        assert code == 1
        assert "server.port = 'x'" in err
        assert "did you mean 'host'?" in err


@pytest.mark.parametrize("verb", ["info", "prune", "compact"])
def test_a_file_that_is_not_there_is_not_made(command: Command, verb: str) -> None:
    code, out, err = command("db", verb)
    assert (code, out) == (1, "")
    assert "data/jobrunner.db does not exist: [store] path says" in err
    assert not Path("data").exists()


def test_config_check_looks_into_workflows_too(command: Command) -> None:
    Path("other.toml").write_text(
        "[workflows.cutx.stages]\nprocesing = 'external'\n[workflows.cuttx]\nlease = 1\n"
    )
    code, out, _ = command("config", "check", "--config", "other.toml")
    assert code == 1
    assert "workflows.cuttx: no such workflow; did you mean 'cutx'?" in out
    assert "workflows.cutx.stages.procesing: no such state; did you mean 'processing'?" in out
    assert command("config", "check") == (0, "ok\n", "")


def test_config_check_tells_what_this_machine_lacks(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these lets the service start, or stops it half way: nobody should have to start it
    to learn of one after the other."""
    Path("data").write_text("a file where a folder is wanted")
    Path("config.toml").write_text(
        "[notify]\nsecrets_env = ['NONE_OF_THIS_NAME', 'TOO_SHORT']\n"
        "[webhooks.replicate]\nsecrets_env = ['NO_SUCH_SECRET']\n"
        "[webhooks.replicat]\nsecrets_env = []\n"
        "[plugins]\nenabled = ['*', 'helo']\n"
        "[workflows.hello.notify]\nurl = 'https://ops.invalid/'\nsecret_env = 'NOR_THIS'\n"
    )
    monkeypatch.setenv("TOO_SHORT", "x")
    code, out, _ = command("config", "check")
    assert code == 1
    told = out.splitlines()
    assert len(told) == 8, told
    for hint in (
        f"store.path: {Path('data').resolve()} cannot be written: ",
        f"store.assets: {Path('data').resolve()}/assets cannot be written: ",
        "the variable NONE_OF_THIS_NAME, named in the settings of notifications",
        "the variable TOO_SHORT, named in the settings of notifications",
        "the variable NOR_THIS, named in the settings of notifications",
        "webhooks.replicate.secrets_env: the variable NO_SUCH_SECRET is not there",
        "plugins.enabled = 'helo': no plugin brings this name; did you mean 'hello'?",
        "webhooks.replicat: no plugin brings a source of this name; did you mean 'replicate'?",
    ):
        assert [line for line in told if line.startswith(hint)], (hint, told)


def test_config_check_sees_a_secret_file_that_holds_none(command: Command) -> None:
    Path("data").mkdir()
    Path("data/notify.secret").write_text("")
    code, out, _ = command("config", "check")
    assert code == 1
    assert "notify.secret: must hold 1 to" in out


def test_a_pace_of_none_is_no_limit(command: Command) -> None:
    Path("config.toml").write_text("[limits]\nbulk_per_second = 0\n")
    assert command("config", "check") == (0, "ok\n", "")


def test_config_show_can_be_used_as_a_config_file(command: Command) -> None:
    Path("config.toml").write_text(
        "[server]\nmax_body = '1KiB'\n[workflows.cutx.stages]\n'processing.tts' = 'external'\n"
        "[workflows.cutx.settings]\nname = 'with \"quotes\" and ü'\n[workflows.cutx.quota]\n"
    )
    code, out, _ = command("config", "show")
    assert code == 0
    Path("shown.toml").write_text(out)
    shown = load(Path("shown.toml"), {})
    assert shown == load(Path("config.toml"), {}) != Config()
    assert (
        json.loads(command("config", "show", "--format", "json")[1])["server"]["max_body"] == 1024
    )


def test_workflows_are_listed_shown_checked_and_drawn(command: Command) -> None:
    listed = command("workflow", "list", "-o", "ids")[1].split()
    assert {"asset-pattern", "cutx", "howera", "image-generation", "ss"} <= set(listed)
    assert json.loads(command("workflow", "show", "cutx")[1])["initial"] == "pending"
    code, out, _ = command("workflow", "check")
    assert (code, set(out.split())) == (0, {*(f"{name}:" for name in listed), "ok"})
    assert "pending" in command("workflow", "graph", "cutx")[1]
    assert command("workflow", "graph", "cutx", "--format", "svg")[1].startswith("<svg")


def test_a_workflow_that_is_not_there_is_4(command: Command) -> None:
    for verb in ("show", "check", "graph"):
        code, _, err = command("workflow", verb, "nope")
        assert code == 4
        assert "nope: no such workflow is installed" in err


def test_a_refused_workflow_says_why_everywhere(command: Command) -> None:
    Path("config.toml").write_text("[workflows.cutx.stages]\nprocessing = 'nobody.brings'\n")
    code, out, _ = command("workflow", "check", "cutx")
    assert code == 1
    assert "nobody.brings" in out
    assert "refused" in command("workflow", "list")[1]
    assert command("workflow", "show", "cutx")[0] == 4


def test_children_that_are_not_there_are_a_note_and_no_fault(tmp_path: Path) -> None:
    """In a process of its own: what a folder of plugins brings stays in the one that loads it."""
    shutil.copytree(CLAN, folder := tmp_path / "plugins.d")
    module = folder / "jobrunner_clan.py"
    module.write_text(module.read_text().replace('ChildWorkflow("clan")', 'ChildWorkflow("clna")'))
    words = (sys.executable, "-m", "jobrunner", "workflow", "check", "clan")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "clan: ok")
    assert "clan declares children of clna, not loaded here; did you mean 'clan'?" in done.stdout


def test_tokens_that_end_and_tokens_that_are_replaced(command: Command) -> None:
    command("token", "create", "ann", "--expires", "90d")
    code, token, _ = command("token", "rotate", "ann", "--grace", "12h")
    assert code == 0
    assert token.startswith("jr_")
    old, new = json.loads(command("token", "list", "-o", "json")[1])
    assert new["expires_at"] is None
    assert new["created_at"] < old["expires_at"] < "2100"
    assert command("token", "rotate", old["id"], "--expires", "1h")[0] == 0
    for wrong, hint in (
        (["create", "bob", "--expires", "soon"], "a duration like 90d"),
        (["rotate", "ann", "--grace", "-1"], "a duration like 90d"),
    ):
        code, out, err = command("token", *wrong)
        assert (code, out) == (2, ""), wrong
        assert hint in err
    assert command("token", "rotate", "nobody")[0] == 4


def test_tokens_for_some_workflows(command: Command) -> None:
    """Of role workflow alone; a table shows it, and a token in its place is for the same."""
    narrow = (
        "token",
        "create",
        "w",
        "--role",
        "workflow",
        "--workflow",
        "ss",
        "--workflow",
        "cutx",
    )
    assert command(*narrow)[0] == 0
    assert command("token", "rotate", "w")[0] == 0
    listed = json.loads(command("token", "list", "-o", "json")[1])
    assert [one["workflows"] for one in listed] == [["cutx", "ss"]] * 2
    assert "cutx" in command("token", "list")[1]
    code, _, err = command("token", "create", "ann", "--workflow", "ss")
    assert code == 2
    assert "--role workflow" in err


def test_tokens_and_credits_on_the_file(command: Command) -> None:
    code, token, _ = command("token", "create", "ann", "--credits", "7")
    assert code == 0
    assert len(token.split()) == 1
    assert token.startswith("jr_")  # never with a dash, or `--token "$TOKEN"` would not be one
    (listed,) = json.loads(command("token", "list", "-o", "json")[1])
    assert (listed["name"], listed["role"], listed["revoked_at"]) == ("ann", "user", None)
    assert token.strip() not in json.dumps(listed)

    gift = ("credit", "grant", "ann", "5", "--reason", "because", "--key", "gift-1")
    assert command(*gift) == (0, "", "")
    assert command(*gift) == (0, "", "")
    code, _, err = command(*gift[:-3], "another reason", "--key", "gift-1")
    assert code == 1
    assert "for 'because'" in err
    assert "12" in command("credit", "balance", "ann")[1]
    rows = json.loads(command("credit", "history", "ann", "-o", "json")[1])
    assert [(row["amount"], row["balance_after"]) for row in rows] == [(5, 12), (7, 7)]
    assert rows[0]["reason"] == "because"
    assert command("credit", "grant", "nobody", "5")[0] == 4
    issuer = "[auth.oidc]\nissuer = 'https://id.invalid'\naudience = 'us'\n"
    Path("issued.toml").write_text(issuer + "roles = { '*' = 'user' }\n")
    assert command("credit", "grant", "mia", "5", "--config", "issued.toml") == (0, "", "")

    assert command("token", "revoke", listed["id"])[0] == 0
    assert json.loads(command("token", "list", "-o", "json")[1])[0]["revoked_at"]
    code, _, err = command("token", "revoke", "nobody")
    assert code == 4
    assert "'nobody'" in err
    assert command("db", "check") == (0, "ok\n", "")
    code, out, _ = command("db", "info", "-o", "json")
    assert (code, json.loads(out)["schema"], json.loads(out)["jobs"]) == (0, latest(), 0)
    assert "sqlite_version" in command("db", "info")[1]
    assert command("db", "prune", "--dry-run") == (0, "0 would go\n", "")
    assert command("db", "prune") == (0, "0 went\n", "")
    code, out, _ = command("db", "compact", "-o", "json")
    assert code == 0
    assert json.loads(out)["file_bytes"] == Path("data/jobrunner.db").stat().st_size
    assert command("db", "check") == (0, "ok\n", "")


def test_a_new_user_starts_with_what_the_settings_say(command: Command) -> None:
    Path("config.toml").write_text("[credits]\ninitial = 3\n")
    command("token", "create", "ann")
    assert "balance  3" in command("credit", "balance", "ann")[1]


def test_no_service_is_1_and_says_where_it_was_sought(command: Command) -> None:
    Path("config.toml").write_text("[server]\nport = 9\n")
    code, out, err = command("job", "list")
    assert (code, out) == (1, "")
    assert "no answer from http://127.0.0.1:9" in err
    assert "is it running?" in err


def test_a_file_in_use_by_a_service_elsewhere_is_not_touched(
    command: Command, tmp_path: Path
) -> None:
    """The lock is held, and nobody answers where the settings say: nothing may be written."""
    with serving(tmp_path) as other:
        Path("config.toml").write_text("[server]\nport = 9\n")
        code, _, err = command("token", "create", "ann")
        assert code == 1
        assert str(other.process.pid) in err


@pytest.mark.parametrize(
    "started", [["-m", "jobrunner"], ["-c", "import jobrunner.cli as c; c.main()"]]
)
def test_it_is_a_program(started: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, *started, "config", "show", "--config", "no.toml"],
        cwd=tmp_path,
        env=clean(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no.toml: cannot be read: No such file or directory\n"


def test_it_starts_without_what_is_slow_to_import(tmp_path: Path) -> None:
    program = (
        "import sys; from jobrunner.cli import run; run(['--version']); run(['token', '--help']);"
        "slow = {'aiohttp', 'aiosqlite', 'sqlite3', 'jobrunner.app', 'rich.progress'};"
        "sys.exit(sorted(slow & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=clean(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_an_examination_found_is_for_programs_too(command: Command, tmp_path: Path) -> None:
    assert command("token", "create", "ann")[0] == 0
    for words in (("db", "check"), ("config", "check")):
        code, out, err = command(*words, "-o", "json")
        assert (code, json.loads(out)) == (0, {"ok": True, "faults": []}), err
        assert command(*words, "-o", "ids")[0] == 2
    checked = json.loads(command("workflow", "check", "-o", "json")[1])
    assert {row["name"] for row in checked} == set(
        command("workflow", "list", "-o", "ids")[1].split()
    )
    assert all(row["ok"] and not row["faults"] for row in checked)
    (tmp_path / "config.toml").write_text('[workflows.helo]\nlease = "5m"\n')
    code, out, _ = command("config", "check", "-o", "json")
    assert (code, json.loads(out)["ok"]) == (1, False)
