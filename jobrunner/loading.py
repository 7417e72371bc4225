"""Loads the installed plugins under the settings of this process."""

import os
import site

from jobrunner.config import overrides
from jobrunner.config.reading import load
from jobrunner.config.settings import Config
from jobrunner.core.declaration.states import DASK
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.stages import Registry


def load_settings() -> Config:
    """Load ``config.toml`` of the working folder, if it is there. Raises: Misconfigured."""
    return load(None, os.environ)


def load_definitions(config: Config, at_home: bool = False) -> Registry:
    """Load everything installed, as it would run under this config; ``at_home``, as on a machine
    that runs stages for a service elsewhere, and hands none on."""
    from jobrunner.http.routes.table import TAKEN

    if os.path.isdir(config.plugins.path):
        site.addsitedir(os.path.abspath(config.plugins.path))

    def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        return overrides.laid_over(workflow, config.workflow(workflow.name), goes_away)

    def goes_away(name: str) -> bool:
        stage = registry.stage(name)
        return stage is not None and stage.where == DASK and not at_home

    registry = Registry(overlay, TAKEN, config.resources)
    registry.load(config.plugins.enabled)
    return registry
