"""What exists is documented and what is documented exists, by the tables of README."""

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
from jobrunner.config.settings import Config, OidcSection, WorkflowSettings
from jobrunner.core.declaration.workflow import Definition
from jobrunner.errors import STATUS_OF_CODE
from jobrunner.http.frame.endpoint import ADMINS, ANYBODY, OWNERS, WORKERS
from jobrunner.http.routes.plugins import endpoints_of
from jobrunner.http.routes.table import CORE

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = sorted(
    [path for kind in ("*.md", "docs/*.md", "plugins/*/README.md") for path in ROOT.glob(kind)]
)


def table(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading of README."""
    _, _, below = README.partition(f"\n{heading}\n")
    assert below, f"README has no heading {heading!r}"
    lines = below.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    rows = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" |")])
    return rows


def code(cell: str) -> str:
    """What stands in backquotes first."""
    found = re.match(r"`([^`]+)`", cell)
    assert found, f"{cell!r} does not begin with a name in backquotes"
    return found[1]


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
    same([code(row[0]) for row in table("## HTTP")], set(routes()))


def test_every_route_names_who_may_call_it() -> None:
    words = {None: "anybody", ANYBODY: "all", OWNERS: "user", WORKERS: "workflow", ADMINS: "admin"}
    known = routes()
    for call, who, _ in table("## HTTP"):
        endpoint = known[code(call)]
        if who != "as declared":
            assert words[endpoint.roles] == who or endpoint.method in ("DELETE", "PUT"), call


def test_every_error_code_with_its_status() -> None:
    codes = STATUS_OF_CODE | {
        name: status
        for definition in DEFINITIONS.values()
        for name, status in definition.workflow.codes.items()
    }
    rows = {code(row[0]): int(row[1]) for row in table("### Errors")}
    same(list(rows), set(codes))
    assert rows == codes


FIELDS_OF_OIDC = OidcSection.__struct_fields__


def keys() -> Iterator[str]:
    for section, kind in get_type_hints(Config).items():
        if section == "resources":
            yield "resources.NAME"
        elif section == "webhooks":
            yield "webhooks.NAME.secrets_env"
        elif section == "auth":
            yield from ("auth.mode", *(f"auth.oidc.{name}" for name in FIELDS_OF_OIDC))
        elif section != "workflows":
            yield from (f"{section}.{name}" for name in kind.__struct_fields__)
    inner = {"stages": ".STATE", "retry": ".STATE", "deadline": ".STATE", "limit": ".STATE"}
    inner["prices"] = ".JOB_TYPE"
    for name in WorkflowSettings.__struct_fields__:
        yield f"workflows.NAME.{name}{inner.get(name, '')}"


def test_every_setting() -> None:
    same([code(row[0]) for row in table("## Settings")], set(keys()))


def test_every_parameter_of_retries_and_quotas() -> None:
    rows = {code(row[0]): row[2] for row in table("## Settings")}
    for key, kind in (("retry.STATE", "RetrySettings"), ("quota", "QuotaSettings")):
        struct = getattr(import_module("jobrunner.config.settings"), kind)
        for name in struct.__struct_fields__:
            assert f"`{name}`" in rows[f"workflows.NAME.{key}"]


def test_the_defaults_of_settings(tmp_path: Path) -> None:
    lines = []
    for key, default, _ in table("## Settings"):
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
    same([code(row[0]) for row in table("## The command line")], set(commands(cli.app)))


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
    same([code(row[0]) for row in table("## The workflows")], known)


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


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: str(text.relative_to(ROOT)))
def test_links_lead_somewhere(text: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", text.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (text.parent / target).exists(), f"{text.name} links to {target}"


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: str(text.relative_to(ROOT)))
def test_a_text_has_one_title(text: Path) -> None:
    outside = re.sub(r"```.*?```", "", text.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(re.findall(r"^# ", outside, re.MULTILINE)) == 1
