"""The rules of this house, as functions from a file to what is wrong with it.

Each takes a path relative to the project and the text, so that a defect can be planted to prove
that the rule finds it. Words that must not stand anywhere are spelled with a bracket here, because
this file is read by its own rules.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath

ESSAY_LINES_MIN = 5
POLL_S_MAX = 0.05

WORLD = {"time", "random", "uuid", "secrets", "threading", "subprocess", "socket", "tempfile"}
DATABASE = {"sqlite3", "aiosqlite"}

# Room or module of the package → the rooms it may import from, besides its own.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "watchdog": set(),
    "ports": {"errors", "watchdog"},
    "log": {"errors", "ports"},
    "ending": {"errors", "log", "ports", "watchdog"},
    "minding": {"errors", "ports"},
    "oidc": {"config", "core", "errors", "outgoing", "ports"},
    "core": {"errors"},
    "check": {"core", "errors"},
    "drawing": {"core"},
    "telemetry": {"core", "errors"},
    "config": {"check", "core", "errors"},
    "store": {"core", "errors", "ports"},
    "files": {"core", "errors", "ports"},
    "providers": {"errors"},
    "outgoing": {"core", "errors", "files", "ports", "providers"},
    "stages": {"check", "core", "errors", "files", "outgoing", "ports"},
    "actors": {"core", "errors", "files", "outgoing", "ports", "stages", "store"},
    "client": {"errors", "ports"},
    "http": {"actors", "core", "drawing", "errors", "files", "ports", "stages"},
    "": {"core", "errors", "files", "outgoing", "providers", "stages"},
    "startup": {"config", "core", "errors", "ports", "stages", "store"},
    "preflight": {"actors", "config", "equipping", "errors", "http", "ports", "stages"},
    "greeting": {"config", "http"},
    "entrance": {
        *("actors", "config", "errors", "files", "http", "oidc", "ports", "preflight"),
        *("standing_by", "store"),
    },
    "standing_by": {
        *("actors", "config", "core", "equipping", "errors", "files", "ports", "store"),
    },
    "equipping": {"config", "files", "outgoing", "ports", "stages"},
    "work": {"client", "config", "core", "errors", "files", "outgoing", "ports", "stages"},
    "loading": {"config", "core", "http", "stages"},
    "cluster": {"config", "core", "errors", "files", "loading", "outgoing", "ports", "stages"}
    | {"work"},
    "app": {"core", "errors", "ports", "stages", "store", "actors", "http", "config", "log"}
    | {"cluster", "files", "loading", "outgoing"}
    | {"ending", "entrance", "equipping", "greeting", "minding", "oidc", "preflight"}
    | {"standing_by", "startup", "telemetry"},
}
ALL_ROOMS = set(MAY_IMPORT) | {"app"}
MAY_IMPORT |= {"bench": ALL_ROOMS, "testing": ALL_ROOMS | {"bench"}, "__main__": {"cli"}}
MAY_IMPORT |= {"cli": ALL_ROOMS | {"bench", "testing"}}
ROOMS = (
    *(
        "config",
        "core",
        "check",
        "drawing",
        "telemetry",
        "store",
        "files",
        "providers",
        "outgoing",
        "stages",
    ),
    *("actors", "client", "cluster", "http", "oidc", "bench", "testing", "cli", "work"),
)

PURE = {
    *("base64", "binascii", "email.utils", "urllib.parse"),
    *("bisect", "collections", "collections.abc", "dataclasses", "datetime", "difflib", "enum"),
    *(
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "hmac",
        "html",
        "inspect",
        "itertools",
        "json",
        "math",
    ),
    *("msgspec", "msgspec.json", "msgspec.structs", "operator", "re", "string", "textwrap"),
    *("types", "typing", "unicodedata"),
    *(
        "cronsim",
        "zoneinfo",
    ),  # calendars: what they answer hangs on nothing but what they are asked
}

EMPTY_WORDS = re.compile(
    r"(?:^|_)(?:utils?|helpers?|common|managers?|base|workers?|misc|fsm)(?:_|$)", re.IGNORECASE
)
REMINDERS = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")
PLACES = re.compile(r"(?<![\w.:/~-])/(?:hom[e]|User[s]|roo[t]|wor[k]|mn[t])/\w")
NAMES = re.compile(
    r"image[-_]?generation|cut[x]\b|\bs[s]\b(?!\s*=)|asset[-_]patter[n]|hower[a]", re.IGNORECASE
)


@lru_cache(maxsize=2)
def parsed(text: str) -> ast.Module:
    """Parse a file once for all the rules that read it one after another."""
    return ast.parse(text)


def room_of(path: PurePosixPath) -> str:
    """``core`` for a file in it, ``log`` for ``jobrunner/log.py``, empty for the door."""
    inner = path.parts[1:]
    return inner[0] if len(inner) > 1 else inner[0].removesuffix(".py").replace("__init__", "")


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported; ``from a import b`` gives ``a`` and ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or "."
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def own_rooms(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for line, name in imports(tree):
        parts = name.split(".")
        if (
            parts[0] == "jobrunner"
            and len(parts) > 1
            and parts[1] in ALL_ROOMS | {"bench", "cli", "testing"}
        ):
            yield line, parts[1]


def downward(path: PurePosixPath, text: str) -> list[str]:
    room = room_of(path)
    allowed = MAY_IMPORT.get(room)
    if allowed is None:
        return [f"{path}: {room!r} is no room of this house; add it to MAY_IMPORT with its place"]
    found = set(own_rooms(parsed(text)))
    return [
        f"{path}:{line}: {room or 'the door'} may not import {other}"
        for line, other in sorted(found)
        if other not in allowed | {room}
    ]


def reserved_modules(path: PurePosixPath, text: str) -> list[str]:
    """Who may touch the world, the database, the server's side of HTTP. Testing makes worlds."""
    room = room_of(path)
    keepers = [(WORLD, "ports"), (DATABASE, "store"), ({"aiohttp.web"}, "http")]
    room = "ports" if room == "watchdog" else room  # a part of it, in a file of its own
    return [
        f"{path}:{line}: only {keeper} imports {name}"
        for line, name in imports(parsed(text))
        for names, keeper in keepers
        if room not in (keeper, "bench", "testing")
        and (name in names or name.split(".")[0] in names)
    ]


def stacked(path: PurePosixPath, text: str) -> list[str]:
    """A group of tasks raises again what it was ended by; a stack of contexts then makes that error
    its own cause, and whoever walks along the causes never comes to an end."""
    return [
        f"{path}:{node.lineno}: a group of tasks on a stack of contexts; give it an async with"
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("enter_async_context")
        and "create_task_group" in ast.unparse(node)
    ]


def pure(path: PurePosixPath, text: str) -> list[str]:
    """For the core and who reads it: nothing that waits, reads or writes; few imports."""
    tree = parsed(text)
    found = [
        f"{path}:{line}: a pure room does not import {name}"
        for line, name in imports(tree)
        if name.split(".")[0] != "jobrunner" and not _is_pure(name)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            if not _is_only_promised(node):
                found.append(f"{path}:{node.lineno}: a pure room does not wait")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"open", "print", "input"}:
            found.append(f"{path}:{node.lineno}: a pure room does not {ast.unparse(node.func)}")
    return found


def _is_only_promised(node: ast.AST) -> bool:
    """A protocol may say that others wait; such a function is a name and three dots."""
    body = getattr(node, "body", [])
    last = body[-1] if isinstance(node, ast.AsyncFunctionDef) and len(body) < 3 else None
    return isinstance(last, ast.Expr) and ast.unparse(last) == "..."


def _is_pure(name: str) -> bool:
    return name in PURE or name.rpartition(".")[0] in PURE


def empty_names(path: PurePosixPath, text: str) -> list[str]:
    """Modules and classes are named by what they are."""
    classes = [node for node in ast.walk(parsed(text)) if isinstance(node, ast.ClassDef)]
    named = [(1, path.stem), *((node.lineno, _snake(node.name)) for node in classes)]
    return [
        f"{path}:{line}: {name!r} says nothing about what it is"
        for line, name in named
        if EMPTY_WORDS.search(name)
    ]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


def reminders(path: PurePosixPath, text: str) -> list[str]:
    return _lines(path, text, REMINDERS, "a reminder was left behind")


def places(path: PurePosixPath, text: str) -> list[str]:
    return _lines(path, text, PLACES, "a path of somebody's machine")


def workflow_names(path: PurePosixPath, text: str) -> list[str]:
    """What measures the service may name what it measures; it is no part of the engine."""
    if room_of(path) in {"bench", "testing"}:
        return []
    return _lines(path, text, NAMES, "the engine knows no workflow by name")


def _lines(path: PurePosixPath, text: str, pattern: re.Pattern[str], fault: str) -> list[str]:
    return [
        f"{path}:{number}: {fault}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def guests(path: PurePosixPath, text: str) -> list[str]:
    """A plugin knows the public door, its own package, and (its tests) the testing room."""
    public = {"jobrunner", "jobrunner.testing", "jobrunner.testing.providers"}
    modules = {
        (node.lineno, node.module)
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0
    }
    modules |= {
        (node.lineno, alias.name)
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    return [
        f"{path}:{line}: a plugin imports jobrunner and jobrunner.testing, not {name}"
        for line, name in sorted(modules)
        if name.split(".")[0] == "jobrunner" and name not in public
    ]


STARTS = {
    "run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec",
    "create_subprocess_shell",
}  # fmt: skip


def scrubbed(path: PurePosixPath, text: str) -> list[str]:
    """A program that is started is told its environment: ours has keys in it."""
    return [
        f"{path}:{node.lineno}: give env=, for instance lent_environment()"
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in STARTS
        and "subprocess" in ast.unparse(node.func)
        and "env" not in {keyword.arg for keyword in node.keywords}
    ]


def undocumented(path: PurePosixPath, text: str) -> list[str]:
    """Every module says what it is; a room's first file says it as an essay."""
    words = ast.get_docstring(parsed(text)) or ""
    if not words:
        return [f"{path}: has no docstring"]
    essay = path.name == "__init__.py" and path.parts[0] == "jobrunner" and len(path.parts) == 3
    lines = [line for line in words.splitlines() if line.strip()]
    if essay and len(lines) < ESSAY_LINES_MIN:
        return [f"{path}: a room opens with an essay: rules, idea, what is deliberately absent"]
    return []


def exports(path: PurePosixPath, text: str) -> list[str]:
    """``__all__`` both ways: what it lists is there, and what is public is listed."""
    tree = parsed(text)
    listed = _listed(tree)
    if listed is None:
        return []
    bound = _bound(tree)
    inside = ".".join(path.parent.parts) if path.name == "__init__.py" else ""
    public = _public(tree, inside)
    found = [f"{path}: __all__ lists {name}, which is not there" for name in listed - bound]
    return found + [f"{path}: {name} is public and not in __all__" for name in public - listed]


def _listed(tree: ast.Module) -> set[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return None


def _bound(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Import() | ast.ImportFrom():
                names |= {alias.asname or alias.name for alias in node.names}
            case ast.Assign():
                names |= {ast.unparse(target) for target in node.targets}
            case ast.AnnAssign():
                names.add(ast.unparse(node.target))
    return names


def _public(tree: ast.Module, inside: str) -> set[str]:
    """What the module defines, and what a package's first file fetches from inside it."""
    names = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    for node in tree.body:
        if inside and isinstance(node, ast.ImportFrom) and _is_below(node.module, inside):
            names |= {alias.asname or alias.name for alias in node.names}
    return {name for name in names if not name.startswith("_")}


def _is_below(module: str | None, package: str) -> bool:
    return (module or "").startswith(f"{package}.")


def patience(path: PurePosixPath, text: str) -> list[str]:
    """Tests wait on conditions: no sleep but a poll's short pause; and no mocks."""
    tree = parsed(text)
    found = [
        f"{path}:{line}: no mocks; use the real thing or a fake that works"
        for line, name in imports(tree)
        if name.startswith(("unittest.mock", "mock."))
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in SLEEPS:
            pause = node.args[0] if node.args else None
            if not (isinstance(pause, ast.Constant) and float(str(pause.value)) <= POLL_S_MAX):
                found.append(f"{path}:{node.lineno}: a test that sleeps; wait on a condition")
    return found


SLEEPS = {"time.sleep", "asyncio.sleep", "anyio.sleep"}


def parses(path: PurePosixPath, text: str) -> list[str]:
    try:
        ast.parse(text, feature_version=(3, 11))
    except SyntaxError as error:
        return [f"{path}:{error.lineno}: does not parse: {error.msg}"]
    return []


def texts(root: Path, pattern: str) -> Iterator[tuple[PurePosixPath, str]]:
    """All files of the project that match, without what tools leave behind."""
    for path in sorted(root.glob(pattern)):
        relative = PurePosixPath(path.relative_to(root).as_posix())
        hidden = any(part.startswith(".") and part != ".ci" for part in relative.parts)
        if path.is_file() and not hidden and not LEFT_BEHIND & set(relative.parts):
            yield relative, path.read_text(encoding="utf-8", errors="replace")


LEFT_BEHIND = {"__pycache__", "build", "dist", "data", "node_modules", "plugins.d", "demo-out"}
STANDARD = sys.stdlib_module_names
