"""The fixtures as authors get them, whether the package is installed with its plugin or not."""

from jobrunner.testing.kit.fixture import whatever_happens
from jobrunner.testing.kit.provider_fixtures import openai_like, replicate_like

__all__ = ["openai_like", "replicate_like", "whatever_happens"]
