"""Jobs under way and the declarations installed now, compared for a person before a start."""

from typing import TYPE_CHECKING

from jobrunner.config.settings import Config
from jobrunner.core.features.upgrades import SHORT, Forecast
from jobrunner.store.features.upgrades import stored_places

if TYPE_CHECKING:
    from jobrunner.stages import Registry


def forecasts(config: Config, registry: "Registry") -> dict[str, Forecast]:
    """By workflow, what becomes of its jobs with the next start; of workflows with jobs alone, be
    they installed or not.

    Raises: Misconfigured
    """
    stored = stored_places(config.store.path)
    registry.remember(stored.declarations)
    names = {place.workflow for place in stored.places}
    return {name: registry.forecast(name, stored.places) for name in sorted(names)}


def of_one_version(registry: "Registry", name: str) -> list[str]:
    """Warn of a declaration that was changed and kept its version, once older ones are known."""
    digests = [digest[:SHORT] for digest in registry.namesakes(name)]
    text = "a stored declaration has the same version; give this one another"
    return [f"{text} ({', '.join(digests)})"] if digests else []
