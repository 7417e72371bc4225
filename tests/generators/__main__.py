"""``make generators``: each generator makes a client of a running service's document, the client is
compiled, and submits, waits, cancels and reads errors. Prints what each had to say, as a table.

What they are is installed into a folder of its own, beside the product and not part of it, in the
versions that stand beside this file; they report to nobody. Needs node, npm and java.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.served import Served, clean, serving

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOLS = ROOT / ".generators"
PYTHON = TOOLS / "py" / "bin"
NODE = TOOLS / "node" / "node_modules"
NEEDED = ("java", "node", "npm")
PATIENCE_S = 300
QUIET = {
    "DO_NOT_TRACK": "1",
    "REDOCLY_TELEMETRY": "off",
    "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
    "npm_config_update_notifier": "false",
}
CHECK = ("--noEmit", "--strict", "--skipLibCheck", "false")
NODE_TYPES = ("--types", "node", "--typeRoots", str(NODE / "@types"))
TO_JAVASCRIPT = (
    *("--strict", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"),
    *("--module", "node16", "--moduleResolution", "node16", "--outDir", "out"),
)


@dataclass
class Verdict:
    """One row. ``warnings`` are what it says in our disfavour; ``its_own``, what it says to all."""

    generator: str
    warnings: int
    its_own: int = 0
    compiles: bool = True
    round_trip: bool | None = None
    said: str = ""

    @property
    def good(self) -> bool:
        return not self.warnings and self.compiles and self.round_trip is not False


class Failed(Exception):
    """A program ended with an error, and said this."""


def run(folder: Path, *command: str | Path, **environ: str) -> str:
    """Raises: Failed."""
    env = clean() | QUIET | {"PATH": f"{PYTHON}{os.pathsep}{os.environ['PATH']}"} | environ
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode:
        raise Failed(f"$ {' '.join(map(str, command))}\n{done.stdout[-3000:]}")
    return done.stdout


def install() -> None:
    """Install what is not there in the version that is wanted."""
    wanted = "".join((HERE / name).read_text() for name in ("requirements.txt", "package.json"))
    stamp = TOOLS / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("installing the generators, once …", flush=True)
    (TOOLS / "node").mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", TOOLS / "py"], check=True)
    pip = (PYTHON / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(ROOT, *pip, "-r", HERE / "requirements.txt")
    shutil.copy(HERE / "package.json", TOOLS / "node")
    run(TOOLS / "node", "npm", "install", "--no-audit", "--no-fund", "--no-package-lock")
    stamp.write_text(wanted)


# ---------------------------------------------------------------- the generators


def spec_validator(document: Path, folder: Path, served: Served) -> Verdict:
    told = run(folder, PYTHON / "python", "-m", "openapi_spec_validator", document)
    return Verdict("openapi-spec-validator", 0 if told.strip().endswith("OK") else 1, said=told)


def redocly(document: Path, folder: Path, served: Served) -> Verdict:
    told = run(folder, NODE / ".bin" / "redocly", "lint", document, "--format=json")
    totals = json.loads(told[told.index("{\n") : told.rindex("}") + 1])["totals"]
    return Verdict("redocly", totals["errors"] + totals["warnings"], said=told)


def openapi_python_client(document: Path, folder: Path, served: Served) -> Verdict:
    how = ("--config", HERE / "openapi-python-client.json", "--output-path", "jobs_client")
    command = ("openapi-python-client", "generate", "--path", document, "--meta", "none", *how)
    told = run(folder, PYTHON / command[0], *command[1:])
    verdict = Verdict("openapi-python-client", told.count("WARNING"), said=told)
    _check_types(folder)
    return _tried_in_python(verdict, folder, served, "openapi_python_client.txt")


def _check_types(folder: Path) -> None:
    """Raises: Failed, for faults in what is made of the document; the frame has its own."""
    try:
        run(folder, PYTHON / "mypy", "--ignore-missing-imports", "jobs_client")
    except Failed as failed:
        faults = [line for line in str(failed).splitlines() if "error:" in line]
        if any(not line.startswith("jobs_client/client.py") for line in faults):
            raise


def openapi_generator_python(document: Path, folder: Path, served: Served) -> Verdict:
    told = _openapi_generator(document, folder, "python", "packageName=jobs_client")
    verdict = _judged("openapi-generator python", told)
    run(folder, PYTHON / "python", "-m", "compileall", "-q", "jobs_client")
    return _tried_in_python(verdict, folder, served, "openapi_generator_python.txt")


def openapi_generator_typescript(document: Path, folder: Path, served: Served) -> Verdict:
    told = _openapi_generator(document, folder, "typescript-fetch", "", into="client")
    verdict = _judged("openapi-generator typescript-fetch", told)
    return _tried_in_node(verdict, folder, served, "typescript_fetch.txt")


def openapi_typescript(document: Path, folder: Path, served: Served) -> Verdict:
    told = run(folder, NODE / ".bin" / "openapi-typescript", document, "-o", "client.ts")
    verdict = Verdict("openapi-typescript", len(re.findall("(?i)warn", told)), said=told)
    return _tried_in_node(verdict, folder, served, "openapi_typescript.txt")


GENERATORS: Sequence[Callable[[Path, Path, Served], Verdict]] = (
    spec_validator,
    redocly,
    openapi_python_client,
    openapi_generator_python,
    openapi_generator_typescript,
    openapi_typescript,
)
# What openapi-generator says whoever's document it reads: of 3.1, of what may be any JSON, of a
# schema that has a place and no name, and of patterns that it makes up no example for.
ITS_OWN = re.compile(
    "support is still in beta|Codegen property is null|Failed to get the schema"
    "|generating `example`"
)


def _openapi_generator(
    document: Path, folder: Path, kind: str, properties: str, into: str = "."
) -> str:
    how = ("-i", document, "-g", kind, "-o", into)
    more = ("--additional-properties", properties) if properties else ()
    return run(folder, PYTHON / "openapi-generator-cli", "generate", *how, *more)


def _judged(name: str, told: str) -> Verdict:
    lines = [line for line in told.splitlines() if re.search(r"\b(?:WARN|ERROR)\b", line)]
    own = [line for line in lines if ITS_OWN.search(line)]
    ours = [line for line in lines if line not in own]
    return Verdict(name, len(ours), len(own), said="\n".join(ours))


def _tried_in_python(verdict: Verdict, folder: Path, served: Served, program: str) -> Verdict:
    shutil.copy(HERE / "programs" / program, folder / "program.py")
    run(folder, PYTHON / "python", "program.py", **_told(served))
    verdict.round_trip = True
    return verdict


def _tried_in_node(verdict: Verdict, folder: Path, served: Served, program: str) -> Verdict:
    shutil.copy(HERE / "programs" / program, folder / "program.ts")
    (folder / "node_modules").symlink_to(NODE)
    (folder / "package.json").write_text("{}")
    run(folder, NODE / ".bin" / "tsc", *TO_JAVASCRIPT, *NODE_TYPES, "program.ts")
    run(folder, "node", "out/program.js", **_told(served))
    verdict.round_trip = True
    return verdict


def _told(served: Served) -> dict[str, str]:
    return {"JOBRUNNER_URL": served.url, "JOBRUNNER_TOKEN": served.token}


def main() -> int:
    """Judge the document by every generator; say how many found fault."""
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        print(f"not on this machine: {', '.join(missing)}", file=sys.stderr)
        return 2
    install()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        (root / "service").mkdir()
        with serving(root / "service") as served:
            document = root / "openapi.json"
            urllib.request.urlretrieve(f"{served.url}/openapi.json", document)
            verdicts = [_verdict(one, document, root, served) for one in GENERATORS]
    return _print(verdicts)


def _verdict(
    generator: Callable[[Path, Path, Served], Verdict], document: Path, root: Path, served: Served
) -> Verdict:
    folder = root / generator.__name__
    folder.mkdir()
    try:
        return generator(document, folder, served)
    except Failed as failed:
        name = generator.__name__.replace("_", "-")
        return Verdict(name, 0, compiles=False, round_trip=False, said=str(failed))


def _print(verdicts: Sequence[Verdict]) -> int:
    print(f"{'generator':<36} warnings  its own  compiles  round trip")
    for one in verdicts:
        trip = "-" if one.round_trip is None else "yes" if one.round_trip else "NO"
        compiles = "yes" if one.compiles else "NO"
        line = f"{one.generator:<36} {one.warnings:>8} {one.its_own:>8}  {compiles:<8}  {trip}"
        print(line)
    bad = [one for one in verdicts if not one.good]
    for one in bad:
        print(f"\n{one.generator}:\n{one.said}")
    return len(bad)


if __name__ == "__main__":
    sys.exit(main())
