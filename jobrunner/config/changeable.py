"""Where each limit that can be changed at run time comes from: the environment, the file, or a
default."""

from collections.abc import Iterator, Mapping

from jobrunner.config.environment import PREFIX, fold
from jobrunner.config.settings import Config, LimitsSection


def origins(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Map each changeable limit that an operator has set to where it was set."""
    named = {
        ".".join(fold(part) for part in variable[len(PREFIX) :].split("__"))
        for variable in environ
        if variable.upper().startswith(PREFIX)
    }
    return {key: "environment" if fold(key) in named else "file" for key in _said(config)}


def _said(config: Config) -> Iterator[str]:
    usual = LimitsSection()
    for name in usual.__struct_fields__:
        if getattr(config.limits, name) != getattr(usual, name):
            yield f"limits.{name}"
    there = Config().resources
    yield from (f"resources.{name}" for name, n in config.resources.items() if there.get(name) != n)
    yield from (f"rates.{name}" for name in config.rates)
    for workflow, settings in config.workflows.items():
        for name in settings.quota.__struct_fields__:
            if getattr(settings.quota, name) is not None:
                yield f"workflows.{workflow}.quota.{name}"
