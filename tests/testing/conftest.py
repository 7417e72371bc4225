"""The fixture as authors get it, whether the package is installed with its plugin or not."""

from jobrunner.testing.fixture import whatever_happens

__all__ = ["whatever_happens"]
