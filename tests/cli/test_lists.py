"""Lists of the running service: since when, and ids that need not be typed in full."""

import io
import json
import sys
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.test_online import submitted
from tests.served import Served


def differing(first: str, second: str) -> int:
    """How many letters tell these apart."""
    return next(at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a != b) + 1


def test_the_beginning_of_an_id_is_enough(online: Command) -> None:
    """Also for whoever pipes them; what several begin with is told with what they are."""
    job_id, other = submitted(online), submitted(online)
    enough = job_id[: max(differing(job_id, other), 13)]
    for verb in ("show", "history", "explain", "watch"):
        code, out, err = online("job", verb, enough, "-o", "json")
        assert code in (0, 5), err
    assert json.loads(online("job", "show", enough, "-o", "json")[1])["id"] == job_id
    assert json.loads(online("job", "explain", enough, "-o", "json")[1])["id"] == job_id
    code, out, err = online("job", "show", job_id[:8])
    assert (code, out) == (2, "")
    assert job_id[: differing(job_id, other)] in err
    code, _, err = online("job", "cancel", job_id[:7])
    assert (code, "8 letters" in err) == (2, True)
    code, _, err = online("job", "show", "ffffffff")
    assert (code, "ffffffff" in err) == (4, True)
    code, out, _ = online("job", "bulk", "cancel", "--ids", enough, "-o", "json")
    assert (code, json.loads(out)["done"]) == (0, 1)


def test_what_a_narrow_list_shows_is_what_commands_take(
    online: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [submitted(online, "--label", "narrow=1") for _ in range(3)]
    monkeypatch.setenv("COLUMNS", "60")
    code, out, err = online("job", "list", "--label", "narrow=1")
    assert code == 0, err
    lines = out.splitlines()
    assert max(map(len, lines)) <= 60
    short = [line.split()[0] for line in lines[1:]]
    assert all(len(one) < 36 for one in short)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(short)))
    code, out, err = online("job", "show", "-", "-o", "ids")
    assert code == 0, err
    assert out.split() == made[::-1]


def test_lists_begin_where_one_says(online: Command, served: Served) -> None:
    made = [submitted(online, "--label", "since=1") for _ in range(3)]
    middle = json.loads(online("job", "show", made[1], "-o", "json")[1])["created_at"]
    chosen = ("job", "list", "--label", "since=1", "-o", "ids")
    since = ("--since", middle)
    assert set(online(*chosen, *since)[1].split()) >= {made[1], made[2]}
    assert made[0] not in online(*chosen, *since)[1]
    assert online(*chosen, *since, "--oldest", "--limit", "1")[1].split() == [made[1]]
    assert online(*chosen, "--since", "2h", "--limit", "2")[1].split() == made[:0:-1]
    assert online(*chosen, "--since", "2100-01-01")[1] == ""
    code, _, err = online(*chosen, "--since", "yesterday")
    assert (code, "2026-11-19" in err) == (2, True)
    assert online("asset", "list", "--since", "1h")[0] == 0
    assert online("delivery", "list", "--since", "1h")[0] == 0
    rows: list[dict[str, Any]] = []
    assert online("token", "create", "since-user", "--credits", "3")[0] == 0
    for since_text, count in (("1h", 1), ("2100-01-01", 0)):
        code, out, err = online(
            "credit", "history", "since-user", "--since", since_text, "-o", "json"
        )
        assert code == 0, err
        rows = json.loads(out)
        assert len(rows) == count


def test_a_list_is_searched(online: Command) -> None:
    order = ("job", "submit", "hello", "--param", "name=a-rare-name", "-o", "ids")
    code, out, err = online(*order)
    assert code == 0, err
    for asked in (("--text", "rare-nam"), ("--param", "name=a-rare-name")):
        assert online("job", "list", *asked, "-o", "ids")[1].split() == [out.strip()], asked
    assert online("job", "list", "--param", "name=a-rare", "-o", "ids")[1] == ""
