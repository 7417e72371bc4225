"""``config``: what the service would start with."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from cyclopts import App

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.installed import installed
from jobrunner.cli.frame.options import Shown, Where

app = App(name="config", help="The settings: show and check them.")


@app.command(help_epilogue=examples("jobrunner config check --config /etc/jobrunner.toml"))
def check(*, shown: Shown = Shown()) -> int:
    """Say everything that is wrong with the settings, also with those of workflows, and what they
    name and this machine lacks: secrets, sources of webhooks, folders that can be written."""
    from jobrunner.config.overrides import unknown_plugins, unknown_workflows
    from jobrunner.config.schedules import unfit_schedules
    from jobrunner.preflight import lacking
    from jobrunner.stages.distributions import offered

    config = shown.load()
    registry = installed(config)
    faults = [*unknown_plugins(config, offered()), *unknown_workflows(config, registry.known())]
    refused = registry.refused["workflows"]
    faults += [fault for name in sorted(refused) for fault in refused[name]]
    faults += unfit_schedules(config, registry.known(), registry.current)
    faults += lacking(config, registry, os.environ)
    return printing.verdict(faults, shown)


@app.command(help_epilogue=examples("jobrunner config show --format json"))
def show(*, format: Literal["toml", "json"] = "toml", where: Where = Where()) -> None:
    """Print every setting in force: from file, environment and defaults.

    Sizes are in bytes, durations in seconds. As TOML it can be used as a config file.
    """
    tree = msgspec.to_builtins(where.load())
    if format == "json":
        printing.json(tree)
    else:
        for key, value in _leaves(tree, ()):
            print(f"{key} = {value}")


def _leaves(tree: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        path = (*above, name)
        if isinstance(value, dict):
            yield from _leaves(value, path)
        elif value is not None:
            yield ".".join(map(_key, path)), json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
