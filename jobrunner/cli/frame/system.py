"""The clock and the maker of ids that every command uses."""

from jobrunner.ports import SystemClock, SystemIds

clock = SystemClock()
ids = SystemIds(clock)
