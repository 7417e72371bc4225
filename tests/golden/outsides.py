"""What others see of this service, each as one text: what they call, what they read, what is kept
in their files. A change of rooms or names inside changes none of these."""

import ast
import io
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from cyclopts import App
from rich.console import Console

import jobrunner
from jobrunner import cli
from jobrunner.config.settings import Config
from jobrunner.core.declaration.workflow import Definition, Workflow
from jobrunner.core.features.meter import Readings
from jobrunner.core.job import Snapshot
from jobrunner.errors import STATUS_OF_CODE
from jobrunner.http.frame import openapi
from jobrunner.http.routes.plugins import endpoints_of
from jobrunner.http.routes.table import CORE
from jobrunner.store.migrations import migrate
from jobrunner.telemetry.figures import Figures
from jobrunner.testing import in_house, simulate

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = ("asset_pattern", "cutx", "hello", "howera", "image_generation", "ss")
SAYING = frozenset({"LogEvent", "_log", "announce", "log", "say"})
SEEDS = (1, 2, 3)
WIDTH = 100


def definitions() -> list[Definition]:
    """Every workflow of this tree, as it is shipped."""
    found = []
    for name in PLUGINS:
        kept = vars(import_module(f"jobrunner_{name}")).values()
        found += [one for one in kept if isinstance(one, Definition)]
    return found


def document() -> str:
    """The OpenAPI document with every plugin of this tree."""
    shipped = definitions()
    table = (*CORE, *endpoints_of(shipped))
    found = openapi.document(table, shipped, "VERSION")
    paths, components = found.pop("paths"), found.pop("components")
    rows = {"": found} | {
        f"{of} {name} {part}": one
        for of, named in (("path", paths), ("component", components))
        for name, parts in named.items()
        for part, one in parts.items()
    }
    return "".join(f"{at} {json.dumps(rows[at], sort_keys=True)}\n" for at in sorted(rows))


def help_texts() -> str:
    return "\n".join(f"$ {' '.join(path)} --help\n{_help(path)}" for path in _commands(cli.app, ()))


def _commands(app: App, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield above
    for name in sorted(app):
        if not name.startswith("-"):
            yield from _commands(app[name], (*above, name))


def _help(path: tuple[str, ...]) -> str:
    text = io.StringIO()
    cli.app.help_print(list(path), console=Console(file=text, width=WIDTH, color_system=None))
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def settings() -> str:
    """Every key, with its default."""
    return "\n".join(sorted(_leaves(Config, ""))) + "\n"


def _leaves(kind: type[Any], above: str) -> Iterator[str]:
    defaults = msgspec.to_builtins(kind())
    for name, hint in get_type_hints(kind).items():
        path = f"{above}.{name}" if above else name
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield from _leaves(hint, path)
        else:
            yield f"{path} = {json.dumps(defaults[name])}"
            inner = [one for one in getattr(hint, "__args__", ()) if _is_struct(one)]
            for one in inner:
                yield from _leaves(one, f"{path}.NAME")


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def schema() -> str:
    """Tables, indexes and triggers of a new file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db)
        rows = db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        return "\n\n".join(sql for (sql,) in rows) + "\n"


def metrics() -> str:
    """Names, kinds and labels, of figures that were counted at least once."""
    figures = Figures("VERSION")
    lines = figures.exposition(Readings())[0].decode().splitlines()
    kinds = sorted(line for line in lines if line.startswith("# TYPE jobrunner_"))
    return "\n".join(kinds) + "\n"


def events() -> str:
    """The names of all lines of the log."""
    found: set[str] = set()
    for file in sorted((ROOT / "jobrunner").rglob("*.py")):
        found |= set(_said(ast.parse(file.read_text(encoding="utf-8"))))
    return "\n".join(sorted(found)) + "\n"


def _said(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _name_of(node.func) in SAYING:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def codes() -> str:
    """Every error code with its status, those of workflows too."""
    found = {"": STATUS_OF_CODE} | {one.workflow.name: one.workflow.codes for one in definitions()}
    rows = [
        f"{whose or 'jobrunner'} {code} {found[whose][code]}"
        for whose in found
        for code in found[whose]
    ]
    return "\n".join(sorted(rows)) + "\n"


def names() -> str:
    """What authors import."""
    return "\n".join(sorted(jobrunner.__all__)) + "\n"


def stored() -> str:
    """The keys of all that is kept as JSON: jobs with what hangs on them, declarations."""
    schemas = msgspec.json.schema_components((Snapshot, Workflow))[1]
    rows = [f"{kind}: {' '.join(schemas[kind].get('properties', {}))}" for kind in schemas]
    return "\n".join(sorted(rows)) + "\n"


def declarations() -> str:
    """The digests that jobs are pinned to."""
    return "\n".join(sorted(f"{one.workflow.name} {one.digest}" for one in definitions())) + "\n"


def simulations() -> str:
    """What a few seeds of a simulation come to."""
    rows = [
        f"{one.workflow.name} {seed} {simulate(in_house(one), seed=seed).digest}"
        for one in definitions()
        for seed in SEEDS
    ]
    return "\n".join(rows) + "\n"


OUTSIDES: dict[str, Callable[[], str]] = {
    "openapi.txt": document,
    "help.txt": help_texts,
    "settings.txt": settings,
    "schema.sql": schema,
    "metrics.txt": metrics,
    "events.txt": events,
    "codes.txt": codes,
    "names.txt": names,
    "stored.txt": stored,
    "declarations.txt": declarations,
    "simulations.txt": simulations,
}
