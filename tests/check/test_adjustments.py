"""What an operator sets for a workflow is checked like everything else: all of it, by name."""

from importlib import import_module
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct
from msgspec.structs import replace

from jobrunner.check.adjustments import misset
from jobrunner.check.checking import check
from jobrunner.config import overrides
from jobrunner.config.settings import WorkflowSettings
from jobrunner.core.declaration.workflow import Definition, Workflow
from jobrunner.stages import Registry
from tests.core.declared import FUNCTIONS, SAMPLE, Params


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    provider: Literal["", "far"] = ""
    wait_s: Annotated[float, Meta(gt=0, description="seconds, more than 0")] = 5
    models: dict[str, str] = {}


def faults(settings: dict[str, Any], kind: Any = Settings, /, **declared: Any) -> str:
    workflow = replace(SAMPLE, **declared)
    definition = Definition(workflow, FUNCTIONS, {"params": Params}, settings=kind)
    fitted, none = overrides.laid_over(definition.workflow, WorkflowSettings(settings=settings))
    assert not none
    return "\n".join(misset(Definition(fitted, settings=kind), definition))


def test_defaults_are_filled_in() -> None:
    definition = Definition(SAMPLE, settings=Settings)
    assert definition.workflow.settings == {"provider": "", "wait_s": 5, "models": {}}


def test_what_fits_is_taken() -> None:
    given = {"PROVIDER": "far", "wait-s": 7, "models": {"a": "b"}, "environment": ["HOME"]}
    assert faults(given) == ""


def test_everything_that_does_not_fit_is_told_at_once() -> None:
    told = faults({"provdier": "far", "provider": "x", "wait_s": 0, "models": [], "zz": 1})
    assert told.splitlines() == [
        "workflows.sample.settings.provider = 'x': Invalid enum value 'x'; allowed are '', 'far'",
        "workflows.sample.settings.wait_s = 0: Expected `float` > 0.0; it is seconds, more than 0",
        "workflows.sample.settings.models = []: Expected `object`, got `array`",
        "workflows.sample.settings.provdier = 'far': no such setting; did you mean 'provider'?",
        "workflows.sample.settings.zz = 1: no such setting; declared are models, provider, wait_s",
    ]


def test_without_a_struct_the_defaults_say_what_there_is() -> None:
    declared = {"settings": {"url": "", "tries": 3, "loud": False, "any": None}}
    assert faults({"url": "x", "tries": 2.5, "loud": True, "any": [1]}, None, **declared) == ""
    told = faults({"url": 7, "tries": "x", "loud": 1, "ulr": "x"}, None, **declared)
    assert told.count("Expected") == 3
    assert "did you mean 'url'?" in told


class Needy(Struct):
    must: str


@pytest.mark.parametrize("kind", [Needy, 7, dict])
def test_a_struct_that_is_none_or_has_no_defaults_is_a_fault(kind: Any) -> None:
    found = check(Definition(SAMPLE, FUNCTIONS, {"params": Params}, settings=kind))
    assert "settings is" in found[0].text


NAMES = ("cutx", "howera", "image_generation", "ss", "asset_pattern", "hello")


@pytest.mark.parametrize("name", NAMES)
def test_a_slip_of_the_pen_refuses_each_workflow_of_this_tree(name: str) -> None:
    definition: Definition = import_module(f"jobrunner_{name}").definition

    def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        slip = {"provder_url": "x"}
        return overrides.laid_over(
            workflow, WorkflowSettings(settings=slip, stages={"*": "external"})
        )

    registry = Registry(overlay)
    registry.add(definition)
    (told,) = registry.refused["workflows"][definition.workflow.name]
    assert f"workflows.{definition.workflow.name}.settings.provder_url" in told
