"""``python -m jobrunner`` is the same as ``jobrunner``."""

from jobrunner.cli import main

main()
