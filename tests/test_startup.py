"""What is loaded is not looked through again and again while jobs are done."""

import gc

from jobrunner import startup


def test_what_was_loaded_is_out_of_the_collectors_sight() -> None:
    thresholds = gc.get_threshold()
    try:
        startup.settle()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() == startup.COLLECTING
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
