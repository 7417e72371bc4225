"""``plugin``: what distributions bring, whether one would load, and a new one to begin with. No
service is needed."""

import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword, issoftkeyword
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from msgspec.structs import replace

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.installed import installed
from jobrunner.cli.frame.options import Shown, Where
from jobrunner.cli.frame.source_folder import SourceFolder, shown_as_installed, slips
from jobrunner.config.settings import Config, nearest
from jobrunner.errors import Misconfigured, Refused
from jobrunner.stages.distributions import (
    BESIDE,
    KINDS,
    PREFIX,
    Brought,
    Kind,
    brought,
    may_load,
    normalized,
)
from jobrunner.stages.importing import API

if TYPE_CHECKING:
    from jobrunner.stages import Registry

NAME_MAX = 40
# What a panel adds to the templates, by the place where it stands there.
PANEL = {
    "panel_import": "    Panel,\n",
    "panel": '\npanel = Panel("$name", __name__, title="The greeting")\n',
    "panel_entry": '\n[project.entry-points."jobrunner.panels"]\n$name = "$package:panel"\n',
}
COLUMNS = ("name", "version", "api", "from", *KINDS, "faults")
LOADED, OFF, REFUSED = "loaded", "off", "refused"

app = App(name="plugin", help="Plugins: list, check, begin a new one.")


@app.command(name="list", help_epilogue=examples("jobrunner plugin list"))
def list_(*, shown: Shown = Shown()) -> None:
    """List the distributions that bring workflows or stages; those that are refused say why."""
    config = shown.load()
    registry = installed(config)
    told = [_told(one, registry, config) for one in brought()]
    if shown.output != "table":
        printing.rows(told, (), shown)
        return
    printing.rows([_row(one) for one in told], COLUMNS, shown)
    for one in told:
        for fault in one["faults"]:
            print(f"\n{one['name']} {one['version']}: {_plain(fault)}")
    for fault in _enabled_in_vain(config):
        print(f"\n{fault}")


@app.command(help_epilogue=examples("jobrunner plugin check night-train"))
def check(folder: Path = Path(), /, *, shown: Shown = Shown()) -> int:
    """Load the plugin in a source folder as the service would, and say what it would refuse.

    It need not be installed. Its entry points are read from pyproject.toml, everything that is
    installed is there beside it, and the settings of config.toml apply.
    """
    source = shown_as_installed(folder)
    config = shown.load()
    names = [entry.name for entry in source.entry_points]
    config = replace(config, plugins=replace(config.plugins, enabled=("*", *names)))
    registry = installed(config)
    one = next(one for one in brought() if one.folder == str(source.folder))
    told = _told(one, registry, config)
    told["faults"] = [*slips(source), *told["faults"], *_elsewhere(one, source)]
    if shown.output != "table":
        printing.rows([told], (), shown)
    else:
        _print_checked(told)
    return 1 if told["faults"] else 0


def _print_checked(told: dict[str, Any]) -> None:
    for fault in told["faults"]:
        print(f"{told['name']} {told['version']}: {_plain(fault)}")
    if not told["faults"]:
        kinds = (f"{len(told[kind])} {kind}" for kind in KINDS if told[kind])
        print(f"{told['name']} {told['version']}: loads; {', '.join(kinds)}")


def _elsewhere(one: Brought, source: SourceFolder) -> Iterator[str]:
    """Whatever python found before the folder is not what was asked about."""
    for module in sorted({entry.module for entry in one.entries}):
        path = getattr(sys.modules.get(module), "__file__", None)
        if path and not Path(path).resolve().is_relative_to(source.folder):
            yield f"{module} is imported from {path}, not from here: two packages have one name"


def _enabled_in_vain(config: Config) -> Iterator[str]:
    known = sorted({entry.name for one in brought() for entry in one.entries})
    for name in config.plugins.enabled:
        if name not in ("*", *known):
            yield f"plugins.enabled = {name!r}: nothing brings it; {nearest(name, known)}"


def _plain(text: str) -> str:
    """One line, whatever a stranger put into it."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


def _name(_: Any, name: str) -> None:
    fits = len(name) <= NAME_MAX and re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name)
    if not fits:
        raise ValueError(
            f"{name!r} is no name for a plugin: up to {NAME_MAX} small letters, digits and single "
            'dashes, a letter first, like "night-train"'
        )


@app.command(
    help_epilogue=examples(
        "jobrunner plugin new night-train --into plugins", "jobrunner plugin new tram --panel"
    )
)
def new(
    name: Annotated[str, Parameter(validator=_name)],
    /,
    *,
    into: Path = Path(),
    panel: Annotated[bool, Parameter(negative=())] = False,
    where: Where = Where(),
) -> None:
    """Write a small plugin that works: a workflow, its stage, tests that pass.

    It gets a folder of its own, called like it, in the folder --into. What is there already is
    left alone. With --panel it has a page of its own, which the dashboard shows for its jobs.
    """
    config = where.load()
    folder = into / name
    if taken := _taken(name, config):
        raise Refused("ALREADY_EXISTS", f"{name}: {taken}; choose another name")
    if not into.is_dir():
        raise Refused("NOT_FOUND", f"{into}: there is no such folder; make it first")
    _write(folder, _files(name, panel))
    print(folder)


def _write(folder: Path, texts: dict[str, str]) -> None:
    """All of them, or none."""
    try:
        folder.mkdir()
    except FileExistsError:
        raise Refused("ALREADY_EXISTS", f"{folder} is there already; it is left alone") from None
    except OSError as error:
        raise Misconfigured(f"{folder}: cannot be made: {error.strerror}") from None
    try:
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise Misconfigured(f"{folder}: cannot be written: {error.strerror}") from None


def _taken(name: str, config: Config) -> str:
    """By whom, or nothing."""
    registry = installed(config)
    for one in brought():
        if normalized(one.name) == f"jobrunner-{name}":
            return f"{one.name} {one.version} is installed from {one.folder}"
        if name in {entry.name for entry in one.of("workflows")}:
            return f"{one.name} brings a workflow of that name"
    if name in registry.known():
        return "there is a workflow of that name"
    if find_spec(package := _package(name)):
        return f"there is a package {package} on python's path"
    plain = name.replace("-", "_")
    if iskeyword(plain) or issoftkeyword(plain) or plain in sys.stdlib_module_names:
        return f"{plain} is a word or a module of python's own"
    found = find_spec(plain)  # a mere folder, as the one of a plugin, has no origin
    return f"there is a package {plain} on python's path" if found and found.origin else ""


def _package(name: str) -> str:
    return f"jobrunner_{name.replace('-', '_')}"


def _files(name: str, panel: bool) -> dict[str, str]:
    package = _package(name)
    places = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{package}/__init__.py": "package",
        f"tests/test_{name.replace('-', '_')}.py": "tests",
    }
    if panel:
        places |= {
            f"{package}/panel/index.html": "panel_page",
            f"{package}/panel/panel.js": "panel_script",
        }
    named = {"name": name, "package": package}
    added = {at: Template(text if panel else "").substitute(named) for at, text in PANEL.items()}
    written = {path: _filled(source, named | added) for path, source in places.items()}
    return {**written, f"{package}/py.typed": ""}


def _filled(source: str, words: dict[str, str]) -> str:
    template = files("jobrunner.cli") / "plugin_template" / f"{source}.txt"
    return Template(template.read_text(encoding="utf-8")).substitute(words)


# ---------------------------------------------------------------- what there is


def _told(one: Brought, registry: "Registry", config: Config) -> dict[str, Any]:
    kinds: dict[str, list[dict[str, Any]]] = {
        kind: [_entry(kind, e, one, registry, config) for e in one.of(kind)] for kind in KINDS
    }
    entries = [entry for kind in KINDS for entry in kinds[kind]]
    reasons = [f"{entry['name']}: {reason}" for entry in entries for reason in entry["faults"]]
    return {
        "id": one.name,
        "name": one.name,
        "version": one.version,
        "api": max(map(_api, one.entries), key=str, default=None),
        "from": _from(one, config),
        "folder": one.folder,
        **kinds,
        "faults": [*filter(None, [one.fault]), *_lost(one), *dict.fromkeys(reasons)],
    }


def _lost(one: Brought) -> Iterator[str]:
    """Nobody looks into a group that is spelled like this."""
    groups = [PREFIX + kind for kind in (*KINDS, *BESIDE)]
    for group in sorted({entry.group for entry in one.entries} - set(groups)):
        yield f"there is no group {group}; {nearest(group, groups)}"


def _row(told: dict[str, Any]) -> dict[str, Any]:
    """With what is listed as text, and what is not there as nothing."""
    kinds = {kind: ", ".join(map(_marked, told[kind])) or None for kind in KINDS}
    return told | kinds | {"faults": len(told["faults"]) or None}


def _marked(entry: dict[str, Any]) -> str:
    state = entry["state"]
    return str(entry["name"]) if state == LOADED else f"{entry['name']} ({state})"


def _entry(
    kind: Kind, entry: EntryPoint, one: Brought, registry: "Registry", config: Config
) -> dict[str, Any]:
    if not may_load(one, entry, config.plugins.enabled):
        return {"name": entry.name, "state": OFF, "faults": []}
    faults = [] if one.fault else list(_faults(kind, entry, registry))
    state = REFUSED if faults or one.fault else LOADED
    return {"name": entry.name, "state": state, "faults": faults}


def _faults(kind: Kind, entry: EntryPoint, registry: "Registry") -> Iterator[str]:
    """Of one entry point. What it leads to may have a name of its own."""
    found, refused = _found(entry), registry.refused[kind]
    name = _given_name(found, entry)
    current = registry.current(name) if kind == "workflows" else None
    if current is not None and current.digest == _digest(found):
        return  # it is another one of this name that was refused
    for reason in refused.get(name, refused.get(entry.name, ())):
        yield reason + _cure(reason)


def _digest(found: Any) -> str:
    """Of a declaration; one that is faulty may have none."""
    try:
        return str(found.digest)
    except Exception:  # noqa: BLE001 - whatever a stranger declared
        return ""


def _found(entry: EntryPoint) -> Any:
    """The thing behind it, if it could be imported."""
    module, _, path = entry.value.partition(":")
    found: Any = sys.modules.get(module.strip())
    for part in path.split("[")[0].strip().split("."):
        found = getattr(found, part, None)
    return found


def _given_name(found: Any, entry: EntryPoint) -> str:
    """Find its own name. A companion names a workflow, a definition has one."""
    workflow = getattr(found, "workflow", None)
    name = workflow if isinstance(workflow, str) else getattr(workflow or found, "name", None)
    return name if isinstance(name, str) else entry.name


def _cure(reason: str) -> str:
    """Where the reason itself says only what happened."""
    if "ModuleNotFoundError" in reason:
        missing = re.search(r"No module named '([\w.]+)'", reason)
        what = f" ({missing[1]})" if missing else ""
        return f"; install what it needs{what} where python finds it, or remove the plugin"
    if "does not load" in reason or "leads to" in reason:
        return "; ask its author to mend it, or remove the plugin"
    return ""


def _api(entry: EntryPoint) -> Any:
    module = sys.modules.get(entry.value.partition(":")[0])
    return getattr(module, "JOBRUNNER_API", API)


def _from(one: Brought, config: Config) -> str:
    if one.editable:
        return one.folder
    added = Path(config.plugins.path)
    return str(added) if Path(one.folder) == added.resolve() else "installed"
