"""What is loaded is not looked through again and again, and the disk is measured once."""

import gc
from pathlib import Path

from msgspec import Struct

from jobrunner import startup
from jobrunner.config.settings import Config, StoreSection
from jobrunner.core import job
from jobrunner.ports import SystemFiles
from tests.served import serving


def test_what_was_loaded_is_out_of_the_collectors_sight() -> None:
    thresholds = gc.get_threshold()
    try:
        startup.settle()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() == startup.COLLECTING
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def test_no_part_of_a_job_is_in_the_collectors_sight() -> None:
    """However many are kept, and with however much in them."""
    nouns = [kind for kind in vars(job).values() if isinstance(kind, type)]
    parts = [kind for kind in nouns if issubclass(kind, Struct) and kind is not Struct]
    assert {job.Snapshot, job.Attempt, job.Timer} < set(parts)
    assert not [part for part in parts if part.__module__ == job.__name__ and _is_looked_at(part)]


def _is_looked_at(kind: type[Struct]) -> bool:
    return kind.__struct_config__.gc


def test_the_price_of_a_flush_is_told_at_the_start(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        (told,) = (line for line in served.log() if line["event"] == "service.starting")
    assert 0 < told["flush_ms"] < 10_000
    assert not list((tmp_path / "data").glob(".flush*"))


def test_a_flush_where_nothing_can_be_written_has_no_price() -> None:
    config = Config(store=StoreSection(path="/proc/none/jobs.db"))
    assert startup.flush_ms(config, SystemFiles()) is None
