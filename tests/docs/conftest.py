"""The fixtures as authors get them, whether the package is installed with its plugin or not."""

from jobrunner.testing.kit.provider_fixtures import replicate_like

__all__ = ["replicate_like"]
