"""What exists is documented and what is documented exists, by the tables of the pages."""

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import cyclopts
import msgspec
import pytest

from jobrunner import cli
from jobrunner.config.settings import Config, OidcSection, ScheduleSettings, WorkflowSettings
from jobrunner.core.declaration.workflow import Definition
from jobrunner.errors import STATUS_OF_CODE
from jobrunner.http.frame.endpoint import ADMINS, ANYBODY, OWNERS, WORKERS
from jobrunner.http.routes.plugins import endpoints_of
from jobrunner.http.routes.table import CORE
from tests.docs.pages import ROOT, TEXTS, anchors, code, label, links, prose, rows


def definitions() -> dict[Path, Definition]:
    """The workflows of the plugins in this tree, by the plugin's folder."""
    found = {}
    for file in sorted(ROOT.glob("plugins/*/pyproject.toml")):
        entries = tomllib.loads(file.read_text())["project"].get("entry-points", {})
        for where in entries.get("jobrunner.workflows", {}).values():
            module, _, name = where.partition(":")
            found[file.parent] = getattr(import_module(module), name)
    return found


DEFINITIONS = definitions()


def same(documented: list[str], existing: set[str]) -> None:
    assert len(documented) == len(set(documented)), "a row stands there twice"
    assert set(documented) - existing == set(), "documented, but not there"
    assert existing - set(documented) == set(), "there, but not documented"


def routes() -> dict[str, Any]:
    endpoints = [*CORE, *endpoints_of(DEFINITIONS.values())]
    return {f"{e.method} {e.path.rstrip('/') or '/'}": e for e in endpoints}


def test_every_route() -> None:
    same([code(row[0]) for row in rows("docs/http.md", "call")], set(routes()))


def test_every_route_names_who_may_call_it() -> None:
    words = {None: "anybody", ANYBODY: "all", OWNERS: "user", WORKERS: "workflow", ADMINS: "admin"}
    known = routes()
    for call, who, _ in rows("docs/http.md", "call"):
        endpoint = known[code(call)]
        if who != "as declared":
            assert words[endpoint.roles] == who or endpoint.method in ("DELETE", "PUT"), call


def test_every_error_code_with_its_status() -> None:
    codes = STATUS_OF_CODE | {
        name: status
        for definition in DEFINITIONS.values()
        for name, status in definition.workflow.codes.items()
    }
    told = rows("docs/errors.md", "`error_code`")
    same([code(row[0]) for row in told], set(codes))
    assert {code(row[0]): int(row[1]) for row in told} == codes


FIELDS_OF_OIDC = OidcSection.__struct_fields__


def keys() -> Iterator[str]:
    for section, kind in get_type_hints(Config).items():
        if section in ("resources", "rates"):
            yield f"{section}.NAME"
        elif section == "webhooks":
            yield "webhooks.NAME.secrets_env"
        elif section == "schedules":
            yield from (f"schedules.NAME.{name}" for name in ScheduleSettings.__struct_fields__)
        elif section == "auth":
            yield from (
                "auth.mode",
                "auth.session",
                *(f"auth.oidc.{name}" for name in FIELDS_OF_OIDC),
            )
        elif section != "workflows":
            yield from (f"{section}.{name}" for name in kind.__struct_fields__)
    inner = {"stages": ".STATE", "retry": ".STATE", "deadline": ".STATE", "limit": ".STATE"}
    inner["prices"] = ".JOB_TYPE"
    for name in WorkflowSettings.__struct_fields__:
        yield f"workflows.NAME.{name}{inner.get(name, '')}"


def test_every_setting() -> None:
    same([code(row[0]) for row in rows("docs/settings.md", "key")], set(keys()))


def test_every_parameter_of_retries_and_quotas() -> None:
    told = {code(row[0]): row[2] for row in rows("docs/settings.md", "key")}
    for key, kind in (("retry.STATE", "RetrySettings"), ("quota", "QuotaSettings")):
        struct = getattr(import_module("jobrunner.config.settings"), kind)
        for name in struct.__struct_fields__:
            assert f"`{name}`" in told[f"workflows.NAME.{key}"]


def test_the_defaults_of_settings(tmp_path: Path) -> None:
    lines = []
    for key, default, _ in rows("docs/settings.md", "key"):
        if default and "NAME" not in key:
            value = code(default)
            plain = re.fullmatch(r"\d+|\[.*\]", value)
            lines.append(f"{code(key)} = {value if plain else repr(value)}")
    file = tmp_path / "config.toml"
    file.write_text("\n".join(lines))
    read = cli_config(file)
    assert len(lines) > 10
    assert read == Config()


def cli_config(file: Path) -> Config:
    from jobrunner.config.reading import load

    return load(file, {})


def commands(app: cyclopts.App, above: str = "") -> Iterator[str]:
    """Every command that does something: those without commands below them."""
    for name in app:
        if not name.startswith("-"):
            below = app[name]
            inner = list(commands(below, f"{above}{name} "))
            yield from inner or [f"{above}{name}"]


def test_every_command() -> None:
    same([code(row[0]) for row in rows("docs/cli.md", "command")], set(commands(cli.app)))


def test_every_command_takes_the_config_file() -> None:
    for name in commands(cli.app):
        command = cli.app
        for word in name.split():
            command = command[word]
        names = [
            name for argument in command.assemble_argument_collection() for name in argument.names
        ]
        assert "--config" in names, name


def test_every_workflow() -> None:
    known = {definition.workflow.name for definition in DEFINITIONS.values()}
    same([code(row[0]) for row in rows("README.md", "workflow")], known)


def _names(definition: Definition) -> Iterator[str]:
    workflow = definition.workflow
    yield workflow.name
    yield from definition.states
    yield from definition.commands
    yield from definition.job_types
    yield from workflow.codes
    yield from workflow.settings
    for job_type in workflow.job_types:
        yield from (field.encode_name for field in _fields(definition.structs[job_type.params]))


def _fields(struct: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(struct)


@pytest.mark.parametrize("folder", DEFINITIONS, ids=lambda folder: folder.name)
def test_a_plugins_readme_names_all_that_its_workflow_declares(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[\w-]+", text))
    missing = [name for name in _names(DEFINITIONS[folder]) if name not in words]
    assert not missing


def astray(text: Path) -> list[str]:
    """The links of a text that lead to nothing, or to no heading of what is there."""
    found = []
    for path, anchor in links(text.read_text(encoding="utf-8")):
        place = text.parent / path if path else text
        if not place.exists():
            found.append(path)
        elif anchor and anchor not in anchors(place.read_text(encoding="utf-8")):
            found.append(f"{path}#{anchor}")
    return found


@pytest.mark.parametrize("text", TEXTS, ids=label)
def test_links_lead_somewhere(text: Path) -> None:
    assert astray(text) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Other\n\n## It's `a-b`, twice\n\n## It's `a-b`, twice\n")
    text = tmp_path / "text.md"
    good = "[a](other.md#its-a-b-twice) [b](other.md#its-a-b-twice-1) [c](#here) [d](other.md)"
    text.write_text(f"# Here\n\n{good} [e](gone.md) [f](other.md#there) [g](#other)\n")
    assert astray(text) == ["gone.md", "other.md#there", "#other"]


def test_every_page_is_linked_from_the_readme() -> None:
    readme = ROOT / "README.md"
    led = {ROOT / path for path, _ in links(readme.read_text(encoding="utf-8"))}
    assert [label(page) for page in sorted(ROOT.glob("docs/*.md")) if page not in led] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) in range(80, 121)


@pytest.mark.parametrize("text", TEXTS, ids=label)
def test_a_text_has_one_title(text: Path) -> None:
    outside = prose(text.read_text(encoding="utf-8"))
    assert len(re.findall(r"^# ", outside, re.MULTILINE)) == 1
