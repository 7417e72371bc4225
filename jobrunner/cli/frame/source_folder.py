"""A plugin in its source folder, shown to python as if it were installed: by its pyproject.toml."""

import json
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from typing import Any

from jobrunner.errors import Misconfigured


class SourceFolder(Distribution):
    """Read from pyproject.toml as an installer would read it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.project = _project(self.folder / "pyproject.toml")

    @property
    def entry_points_text(self) -> str:
        """The entry points, as an installer writes them down."""
        lines: list[str] = []
        for group, entries in self.project.get("entry-points", {}).items():
            lines += [f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())]
        return "\n".join(lines)

    @property
    def roots(self) -> list[str]:
        """The folders that its packages lie in."""
        inner = self.folder / "src"
        return [str(root) for root in (inner, self.folder) if root.is_dir()]

    def read_text(self, filename: str) -> str | None:
        name, version = self.project["name"], self.project.get("version", "0")
        found = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            "entry_points.txt": self.entry_points_text,
            "direct_url.json": json.dumps(
                {"url": self.folder.as_uri(), "dir_info": {"editable": True}}
            ),
        }
        return found.get(filename)

    def locate_file(self, path: Any) -> Path:
        return Path(self.folder, path)


class _Finder(DistributionFinder):
    """Shows one folder to whoever asks what is installed, before all others."""

    def __init__(self, distribution: SourceFolder) -> None:
        self._distribution = distribution

    def find_spec(self, *asked: Any) -> None:
        """Leave modules to the path, where they are found."""

    def find_distributions(
        self, context: DistributionFinder.Context | None = None
    ) -> Iterable[Distribution]:
        wanted = context.name if context is not None else None
        return [self._distribution] if wanted in (None, self._distribution.project["name"]) else []


def shown_as_installed(folder: Path) -> SourceFolder:
    """Show a folder as installed from here on, for this process.

    Raises: Misconfigured"""
    distribution = SourceFolder(folder)
    sys.meta_path.insert(0, _Finder(distribution))
    sys.path[:0] = distribution.roots
    return distribution


def slips(distribution: SourceFolder) -> Iterator[str]:
    """Say what an installer would not mind, and the service would."""
    project = distribution.project
    if not any(group.startswith("jobrunner.") for group in project.get("entry-points", {})):
        wanted = '[project.entry-points."jobrunner.stages"]'
        yield f"pyproject.toml has no entry points of ours, as {wanted}"
    for needed in project.get("dependencies", ()):
        if needed.replace("_", "-").split(" ")[0].rstrip("<>=~!.0123456789") == "jobrunner":
            yield (
                "dependencies name jobrunner: pip --target would put another one beside the "
                "plugin; leave it out"
            )


def _project(path: Path) -> dict[str, Any]:
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        text = f"{path.parent}: there is no pyproject.toml; name the folder of a plugin"
        raise Misconfigured(text) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Misconfigured(f"{path} cannot be read: {error}") from None
    project = told.get("project")
    if not isinstance(project, dict) or not isinstance(project.get("name"), str):
        raise Misconfigured(f"{path}: [project] has no name; write one, like jobrunner-tram")
    return project
