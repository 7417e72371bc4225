"""What is loaded is not looked through again and again, and the disk is measured once."""

import gc
from pathlib import Path

from jobrunner import startup
from jobrunner.config.settings import Config, StoreSection
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


def test_the_price_of_a_flush_is_told_at_the_start(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        (told,) = (line for line in served.log() if line["event"] == "service.starting")
    assert 0 < told["flush_ms"] < 10_000
    assert not list((tmp_path / "data").glob(".flush*"))


def test_a_flush_where_nothing_can_be_written_has_no_price() -> None:
    config = Config(store=StoreSection(path="/proc/none/jobs.db"))
    assert startup.flush_ms(config, SystemFiles()) is None
