"""Backups, restores and migrations as they are typed, while no service has the file."""

import gzip
from pathlib import Path

import pytest

from jobrunner.files.stored_backups import StoredBackups
from jobrunner.store.migrations import latest
from jobrunner.store.opening import ProcessLock
from tests.cli.conftest import Command
from tests.store.test_stored import STORED


def made(command: Command) -> str:
    """A place with a token in it, and a backup of it."""
    assert command("token", "create", "ann", "--role", "user")[0] == 0
    assert command("db", "backup", "backups")[0] == 0
    return StoredBackups("backups").names()[-1]


def test_out_and_back(command: Command) -> None:
    name = made(command)
    assert command("token", "create", "bob", "--role", "user")[0] == 0
    code, out, _ = command("db", "verify", "backups")
    assert (code, out.split()[:2]) == (0, ["ok", name])
    code, out, err = command("db", "restore", "backups")
    assert (code, out) == (1, "")
    assert "data/jobrunner.db is there already: with --force it is kept beside" in err
    code, out, _ = command("db", "restore", "backups", "--force")
    assert code == 0
    assert f"{name} is restored to" in out
    assert "jobrunner.db is kept as" in out
    _, out, _ = command("token", "list")
    assert "ann" in out
    assert "bob" not in out
    kept = list(Path("data").glob("jobrunner.db.replaced-*"))
    assert len(kept) == 1
    assert command("db", "check") == (0, "ok\n", "")


def test_an_older_one_by_its_name(command: Command) -> None:
    first = made(command)
    assert command("token", "create", "bob", "--role", "user")[0] == 0
    assert command("db", "backup", "backups")[0] == 0
    assert command("db", "restore", "backups", "--at", first, "--force")[0] == 0
    assert "bob" not in command("token", "list")[1]
    code, _, err = command("db", "restore", "backups", "--at", "2020", "--force")
    assert code == 1
    assert f"2020 is not there; whole backups in backups: {first}, " in err
    assert "holds no whole backup" in command("db", "verify", "elsewhere")[2]


def test_a_restore_of_what_is_damaged_changes_nothing(command: Command) -> None:
    name = made(command)
    place = Path("backups") / name / "jobrunner.db"
    data = bytearray(place.read_bytes())
    data[5000] ^= 1
    place.write_bytes(data)
    before = Path("data/jobrunner.db").read_bytes()
    assert "is damaged" in command("db", "verify", "backups")[1]
    code, _, err = command("db", "restore", "backups", "--force")
    assert code == 1
    assert "it is not what was backed up" in err
    assert Path("data/jobrunner.db").read_bytes() == before
    assert sorted(path.name for path in Path("data").iterdir()) == [
        "jobrunner.db", "jobrunner.db.lock"
    ]  # fmt: skip


def test_a_place_in_use_is_left_alone(command: Command) -> None:
    made(command)
    lock = ProcessLock("data/jobrunner.db")
    code, _, err = command("db", "restore", "backups", "--force")
    lock.release()
    assert code == 1
    assert "in use by process" in err


def test_a_backup_needs_a_place_that_can_be_meant(command: Command) -> None:
    assert command("token", "create", "ann", "--role", "user")[0] == 0
    assert "set [backup] path" in command("db", "backup")[2]
    code, _, err = command("db", "backup", "data/assets/backups")
    assert code == 1
    assert "among the files of jobs" in err
    Path("config.toml").write_text('[backup]\npath = "data/assets/b"\n')
    assert "backup.path = 'data/assets/b': must not be in store.assets" in command("db", "check")[2]
    Path("config.toml").write_text('[backup]\npath = "kept"\nkeep = 2\n')
    for _ in range(3):
        assert command("db", "backup")[0] == 0
    assert len(StoredBackups("kept").names()) == 2


def test_what_refusals_advise_helps(command: Command) -> None:
    """A damaged file, and one of a later program, say what to type; and that helps."""
    made(command)
    for spoil in (b"no database" * 999, None):
        place = Path("data/jobrunner.db")
        if spoil:
            place.write_bytes(spoil)
        else:
            data = bytearray(place.read_bytes())
            data[60:64] = (latest() + 1).to_bytes(4, "big")
            place.write_bytes(data)
        code, _, err = command("token", "list")
        assert code == 1
        assert "`jobrunner db restore FOLDER --force`" in err
        assert command("db", "restore", "backups", "--force")[0] == 0
        assert command("token", "list")[0] == 0


@pytest.mark.parametrize("schema", STORED, ids=lambda path: path.name)
def test_a_migration_is_tried_and_done(command: Command, schema: Path) -> None:
    Path("data").mkdir()
    Path("data/jobrunner.db").write_bytes(gzip.decompress(schema.read_bytes()))
    number = int(schema.name.removeprefix("schema-").removesuffix(".db.gz"))
    code, out, _ = command("db", "migrate", "--dry-run")
    assert code == 0
    assert f"has schema {number}; it can be brought to {number + 1}" in out
    assert "nothing was changed" in out
    code, out, _ = command("db", "migrate")
    assert code == 0
    assert f"jobrunner.db.schema-{number} is how it was" in out
    assert Path(f"data/jobrunner.db.schema-{number}").exists()
    assert "which is that of this program" in command("db", "migrate")[1]
    assert command("db", "check") == (0, "ok\n", "")


def test_there_is_nothing_to_migrate_where_nothing_is(command: Command) -> None:
    code, _, err = command("db", "migrate", "--dry-run")
    assert code == 1
    assert "does not exist" in err
    assert not Path("data").exists()
