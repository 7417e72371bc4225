"""Loads what is installed: the plugins, as they run under the settings of whoever loads them."""

import os
import site

from jobrunner.config import overrides
from jobrunner.config.reading import load
from jobrunner.config.settings import Config
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.stages import Registry


def load_settings() -> Config:
    """By ``config.toml`` of the working folder, if it is there. Raises: Misconfigured."""
    return load(None, os.environ)


def load_definitions(config: Config) -> Registry:
    """Everything installed, as it would run under this config."""
    from jobrunner.http.routes.table import TAKEN

    if os.path.isdir(config.plugins.path):
        site.addsitedir(os.path.abspath(config.plugins.path))

    def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        return overrides.laid_over(workflow, config.workflow(workflow.name))

    registry = Registry(overlay, TAKEN, config.resources)
    registry.load(config.plugins.enabled)
    return registry
