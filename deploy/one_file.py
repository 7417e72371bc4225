"""The service as one file: `make dist`, or `python deploy/one_file.py --into dist`.

Wheels are built of the program and the light plugins; what they depend on is taken as it is
installed here, so no index is asked and the file is made of what the tests ran with. All of it
becomes one file that python runs. The same sources and the same environment give the same bytes.

Heavy plugins are additions: a folder `plugins.d` beside the file, with what they need and the file
has not. The file fits the python that it was built with, and says so to another one.
"""

import argparse
import csv
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

from jobrunner.cli.version import closure, needed
from jobrunner.stages.distributions import normalized

ROOT = Path(__file__).resolve().parents[1]
LIGHT = ("hello", "asset_pattern", "image_generation")
PROGRAM = "jobrunner"
MOMENT = "315532800"  # the first that a zip can say, in 1980
OF_ONE_PLACE = ("INSTALLER", "REQUESTED", "direct_url.json", "RECORD")
PREAMBLE = """\
import sys

if sys.version_info[:2] != {version}:
    sys.exit(
        "this file is made for python {text}, and this is python "
        + ".".join(map(str, sys.version_info[:2])) + ": run it with python{text}, or build it anew"
    )
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "dist")
    parser.add_argument("--plugins", default=",".join(LIGHT), help="names of folders in plugins")
    parser.add_argument("--add", default="", help="the same, to lie in plugins.d beside the file")
    chosen = parser.parse_args()
    made = built(chosen.into, _names(chosen.plugins), _names(chosen.add))
    sys.stdout.write(f"{made} ({made.stat().st_size / 1e6:.1f} MB)\n")


def built(into: Path, plugins: list[str], additions: list[str]) -> Path:
    """The file; the wheels lie beside it, in a folder of their own."""
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as held:
        site, preamble = Path(held) / "site", Path(held) / "preamble.py"
        _filled(site, [ROOT, *_folders(plugins)], into / "wheels", set())
        if additions:
            beside = into / "plugins.d"
            shutil.rmtree(beside, ignore_errors=True)
            _filled(beside, _folders(additions), into / "wheels", _names_in(site))
        version = sys.version_info[:2]
        preamble.write_text(PREAMBLE.format(version=version, text=f"{version[0]}.{version[1]}"))
        return _zipped(site, preamble, into / f"{PROGRAM}.pyz")


def _names(listed: str) -> list[str]:
    return listed.replace(",", " ").split()


def _folders(plugins: list[str]) -> list[Path]:
    return [ROOT / "plugins" / name for name in plugins]


def _filled(site: Path, projects: list[Path], wheels: Path, there: set[str]) -> None:
    """What the projects are made of, and what they need that is not there already."""
    for project in projects:
        with zipfile.ZipFile(_wheel(project, wheels)) as file:
            file.extractall(site)
    for dependency in _dependencies(site, there):
        _copied(dependency, site)


def _names_in(site: Path) -> set[str]:
    return {normalized(Distribution.at(one).name) for one in site.glob("*.dist-info")}


def _wheel(project: Path, into: Path) -> Path:
    into.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as fresh:
        command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", fresh)
        _run(command, project)
        (made,) = Path(fresh).glob("*.whl")
        return Path(shutil.move(made, into / made.name))


def _dependencies(site: Path, there: set[str]) -> Iterator[Distribution]:
    """All that is needed by what lies in a folder and is installed here, but those themselves."""
    own = sorted(site.glob("*.dist-info"))
    told = _names_in(site) | there
    for name in (name for one in own for name in needed(Distribution.at(one))):
        for found in closure(name):
            if normalized(found.name) not in told:
                told.add(normalized(found.name))
                yield found


def _copied(found: Distribution, site: Path) -> None:
    """Its files, without those that speak of this place: scripts, and what its installer wrote."""
    kept: list[str] = []
    for file in sorted(found.files or (), key=str):
        path = str(file)
        if path.startswith("..") or "__pycache__" in file.parts:
            continue
        if file.parent.name.endswith(".dist-info") and file.name in OF_ONE_PLACE:
            continue
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        source = str(file.locate())
        shutil.copyfile(source, target)
        target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
        kept.append(path)
    (folder,) = {path.split("/")[0] for path in kept if ".dist-info/" in path}
    record = io.StringIO()
    csv.writer(record, lineterminator="\n").writerows([path, "", ""] for path in kept)
    (site / folder / "RECORD").write_text(record.getvalue())


def _zipped(site: Path, preamble: Path, into: Path) -> Path:
    options = ("--reproducible", "--extend-pythonpath", "--python", "/usr/bin/env python3")
    what = ("--site-packages", str(site), "--console-script", PROGRAM, "--preamble", str(preamble))
    command = (sys.executable, "-m", "shiv", *what, *options, "--output-file", str(into))
    _run(command, ROOT)
    return into


def _run(command: tuple[str, ...], folder: Path) -> None:
    surroundings = {**os.environ, "SOURCE_DATE_EPOCH": MOMENT}
    done = subprocess.run(
        command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command[1:4])} in {folder} failed:\n{done.stderr or done.stdout}")


if __name__ == "__main__":
    main()
