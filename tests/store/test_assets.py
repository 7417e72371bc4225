"""Which files the jobs of their owner name, as far as one looks."""

import sqlite3

import pytest

from jobrunner.core.job import Asset
from jobrunner.core.questions import AssetRow
from jobrunner.store.features import assets
from tests.store.test_listing import filled

FILE = "01900000-0000-7000-8000-000000000001"
ROW = AssetRow(Asset(FILE, "file", f"/assets/{FILE}/content"), None, "ada")
WORKED_ON = "INSERT INTO attempts VALUES (1, 1, 'running', 'w', 1, '{}')"
MADE = "INSERT INTO artifacts VALUES (2, 'text', 1, 1, 1, 'ada', 'r', '', ?)"


def is_named(db: sqlite3.Connection, *workflows: str) -> bool:
    return assets.named_by(db, ROW, workflows or ("toy",))


def test_a_file_is_named_in_what_was_sent_or_made() -> None:
    db = filled([FILE, "nothing"])
    assert is_named(db, "other", "toy")
    assert not is_named(db, "other")
    db = filled(["nothing", "nothing"])
    assert not is_named(db)
    db.execute(MADE, (f'"/assets/{FILE}"',))
    assert is_named(db)


@pytest.mark.parametrize("many", [["hay" * 1000], ["hay"] * 3], ids=["large", "many"])
def test_one_looks_at_so_much_and_at_what_is_worked_on_first(
    many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody's questions wait for this one; and whoever works on a job reads its files, however
    much its owner has sent since."""
    db = filled([FILE, *many])
    assert is_named(db)
    monkeypatch.setattr(assets, "LETTERS_MAX", 2000)
    monkeypatch.setattr(assets, "MOST_JOBS", 3)
    assert not is_named(db)
    db.execute(WORKED_ON)
    assert is_named(db)
    assert not is_named(db, "other")


def test_what_is_worked_on_is_found_by_its_index() -> None:
    asked = assets.NAMING.format(assets.AT_WORK)
    given = {"user_id": "ada", "asset": FILE, "workflows": '["toy"]'}
    plan = filled([]).execute(f"EXPLAIN QUERY PLAN {asked}", given)
    assert "attempts USING INDEX attempts_running" in next(plan)[3]
