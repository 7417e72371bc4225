"""The unruly stage, as a plugin that a service of its own finds in its folder."""

from tests.stages.unruly import definition_of, misbehave

definition = definition_of("unruly", "unruly.stage", limit_s=600)
brief = definition_of("unruly-brief", "unruly.stage", limit_s=5)

__all__ = ["brief", "definition", "misbehave"]
