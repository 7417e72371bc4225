"""Rules about the house as a whole: each reads every module and names what offends, in words that
do not change when a line moves. What offended when a rule came is listed in ``offenders.txt``, and
that list may only shrink."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from tests.house.names import used
from tests.house.rules import imports, texts

Tree = dict[PurePosixPath, str]

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
MODULES_MAX = 24
TEST_LINES_MAX = 600
STATIC = "jobrunner/http/routes/pages/static"
PAGES = (STATIC, f"{STATIC}/dashboard", f"{STATIC}/panel")
SHIPPED = {
    ".c": ("jobrunner/bench",),
    ".mjs": ("jobrunner/bench",),
    ".css": PAGES,
    ".html": PAGES,
    ".js": PAGES,
    ".svg": PAGES[1:],
    ".sql": ("jobrunner/store/schema",),
    ".txt": ("jobrunner/cli/plugin_template",),
}
PUBLIC_ALL_THE_SAME = frozenset({"_exit", "_replace"})  # as their own documentation says
OPENS_FILES = frozenset(
    {
        *("", "app", "bench", "cli", "config", "files", "loading", "outgoing", "ports"),
        *("preflight",),
        *("stages", "store", "testing"),
    }
)
READS_ENVIRONMENT = frozenset(
    {"app", "cli", "client", "config", "bench", "loading", "ports", "startup", "testing"}
)
FILE_CALLS = re.compile(
    r"open|io\.open|shutil\.\w+"
    r"|os\.(?:access|chmod|chown|fdopen|link|listdir|lstat|makedirs|mkdir|open|remove|removedirs"
    r"|rename|replace|rmdir|scandir|stat|statvfs|symlink|truncate|unlink|utime|walk)"
    r"|os\.path\.(?:exists|getmtime|getsize|isdir|isfile|islink|lexists|realpath|samefile)"
)
FILE_VERBS = frozenset(
    {
        *("exists", "hardlink_to", "is_dir", "is_file", "iterdir", "mkdir", "open", "read_bytes"),
        *("read_text", "rename", "replace_file", "rglob", "rmdir", "symlink_to", "touch"),
        *("unlink", "write_bytes", "write_text"),
    }
)
ENVIRONMENT = re.compile(r"os\.(?:environb?|getenvb?|putenv|unsetenv|path\.expandvars)")
CLOCKS = re.compile(r"datetime\.datetime\.(?:now|utcnow|today)|datetime\.date\.today|os\.urandom")
HARD_BEGINNINGS = re.compile(r"(?:What|Who|Whose|Whoever|Whether|Nobody who)\b")
HARD_WORDS = re.compile(
    r"\b(?:in the house|puts? aside|nothing any more|nonsense|is passed over|all the same)\b",
    re.IGNORECASE,
)
# One word for each feature: files of these names stand in several rooms. DESIGN.md lists them too.
FEATURES = frozenset(
    {
        "answers",
        "artifacts",
        "assets",
        "attempts",
        "audit",
        "backups",
        "batches",
        "bindings",
        "bulk",
        "census",
        "charts",
        "claims",
        "commands",
        "credits",
        "explain",
        "file_moves",
        "firings",
        "families",
        "health",
        "in_line",
        "hooks",
        "host_answers",
        "jobs",
        "limits",
        "loans",
        "notifications",
        "objects",
        "one_at_a_time",
        "openai_like",
        "overview",
        "panels",
        "pauses",
        "plugins",
        "rates",
        "remote",
        "quota",
        "replays",
        "replicate_like",
        "reports",
        "reruns",
        "retention",
        "sessions",
        "schedules",
        "singletons",
        "sources",
        "standby",
        "status_moves",
        "streams",
        "submissions",
        "timers",
        "tokens",
        "upkeep",
        "upgrades",
        "uploads",
        "webhooks",
        "workflows",
    }
)


def read(root: Path) -> Tree:
    """Every module of the product and its tests, and every file of the package."""
    patterns = ("jobrunner/**/*", "tests/**/*.py", "plugins/**/*.py")
    return {path: text for pattern in patterns for path, text in texts(root, pattern)}


def strays(tree: Tree) -> list[str]:
    """Files in a package that are neither a module nor shipped from where they lie."""
    return [
        str(path)
        for path in _of(tree, "jobrunner")
        if path.suffix != ".py"
        and path.name != "py.typed"
        and "vendor" not in path.parts
        and str(path.parent) not in SHIPPED.get(path.suffix, ())
    ]


def unasked(tree: Tree) -> list[str]:
    """Modules that the product never imports and that are no entrance of their own."""
    asking = [path for path in _of(tree, "jobrunner", "plugins") if path.suffix == ".py"]
    asked = {name for path in asking for name in _imported(path, tree)}
    asked |= {name.rpartition(".")[0] for name in asked}  # an essay is read by those who come in
    commands = "".join(tree[path] for path in modules(tree) if _room(path) == "cli")
    return sorted(
        _dotted(path)
        for path in modules(tree)
        if _dotted(path) not in asked and not _is_entrance(path, tree[path], commands)
    )


PYTEST_PLUGINS = frozenset(  # as pyproject.toml names them
    {"jobrunner.testing.kit.fixture", "jobrunner.testing.kit.provider_fixtures"}
)


def _is_entrance(path: PurePosixPath, text: str, commands: str) -> bool:
    """It is run by itself, or named in pyproject or in the table of commands."""
    begins = '__name__ == "__main__"' in text or path.stem == "__main__"
    named = {"jobrunner", *PYTEST_PLUGINS}
    within = ".".join(path.with_suffix("").parts[2:])
    by_command = _room(path) == "cli" and (
        f"jobrunner.cli.{within}:" in commands or f'"{within}"' in commands
    )
    return begins or _dotted(path) in named or by_command


def opened(tree: Tree) -> list[str]:
    """Rooms that touch files and may not."""
    return [
        str(path)
        for path in modules(tree)
        if _room(path) not in OPENS_FILES
        and (_uses(path, tree, FILE_CALLS) or FILE_VERBS & _methods_called(path, tree))
    ]


def _methods_called(path: PurePosixPath, tree: Tree) -> set[str]:
    return {
        node.func.attr
        for node in ast.walk(_parsed(path, tree))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }


def environment(tree: Tree) -> list[str]:
    """Rooms that read the environment and may not."""
    return [
        str(path)
        for path in modules(tree)
        if _room(path) not in READS_ENVIRONMENT and _uses(path, tree, ENVIRONMENT)
    ]


def told_time(tree: Tree) -> list[str]:
    """Modules that ask a clock, by any of its names; ``ports`` has the clocks."""
    return [
        str(path)
        for path in _of(tree, "jobrunner", "plugins")
        if path.suffix == ".py" and _room(path) != "ports" and _uses(path, tree, CLOCKS)
    ]


def _uses(path: PurePosixPath, tree: Tree, pattern: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(name) for name in _used(path, tree))


def cycles(tree: Tree) -> list[str]:
    """Modules that import each other, at whatever time."""
    graph = {
        _dotted(path): {name for name in _imported(path, tree) if name != _dotted(path)}
        for path in modules(tree)
    }
    return sorted(" ".join(sorted(ring)) for ring in _rings(graph) if len(ring) > 1)


def _rings(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Strongly connected parts, by Tarjan."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(name: str) -> Iterator[list[str]]:
        order[name] = low[name] = len(order)
        path.append(name)
        for other in sorted(graph[name] & graph.keys()):
            if other not in order:
                yield from visit(other)
                low[name] = min(low[name], low[other])
            elif other in path:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            ring = path[path.index(name) :]
            del path[path.index(name) :]
            yield ring

    for name in sorted(graph):
        if name not in order:
            yield from visit(name)


def classes(tree: Tree) -> list[str]:
    """Public class names that stand for more than one class."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in modules(tree):
        for node in _parsed(path, tree).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(_dotted(path))
    return sorted(f"{name}: {' '.join(sorted(at))}" for name, at in homes.items() if len(at) > 1)


def namesakes(tree: Tree) -> list[str]:
    """A module name that stands in two rooms and is no feature's word."""
    homes: dict[str, set[str]] = defaultdict(set)
    for path in modules(tree):
        if path.name != "__init__.py":
            homes[path.stem].add(_room(path))
    return sorted(
        f"{name}: {' '.join(sorted(rooms))}"
        for name, rooms in homes.items()
        if len(rooms) > 1 and name not in FEATURES and not name.startswith("__")
    )


def for_tests_only(tree: Tree) -> list[str]:
    """Public functions, methods and constants that the product itself never names again, but for
    the hooks that pytest calls in its plugins."""
    words = Counter(
        word for path in _of(tree, "jobrunner", "plugins") for word in _words(path, tree)
    )
    return sorted(
        f"{_dotted(path)}.{name}"
        for path in modules(tree)
        for name in _offered(_parsed(path, tree))
        if words[name.rpartition(".")[2]] == 0
        and not (name.startswith("pytest_") and _dotted(path) in PYTEST_PLUGINS)
    )


def _offered(tree: ast.Module) -> Iterator[str]:
    """Public functions, methods and constants; whatever has a decorator may be found by that, and
    methods of a class that stands on another one may be that one's."""
    for node in tree.body:
        yield from _callable(node)
        if isinstance(node, ast.ClassDef) and not node.bases:
            for inner in node.body:
                yield from (f"{node.name}.{name}" for name in _callable(inner))
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constant = node.targets[0].id
            yield from [constant] if constant.isupper() and constant[0] != "_" else []


def _callable(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list:
        yield from [node.name] if node.name[0] != "_" else []


def _words(path: PurePosixPath, tree: Tree) -> Iterator[str]:
    """Every name that a module mentions, but not where it defines or exports it."""
    if path.suffix != ".py":
        return
    for node in ast.walk(_parsed(path, tree)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.rpartition(":")[2]


def private(tree: Tree) -> list[str]:
    """Private names of another module, imported or reached for through what is not oneself."""
    found = set()
    for path in modules(tree):
        bound = _own_private(path, tree)
        for node in ast.walk(_parsed(path, tree)):
            found |= {f"{_dotted(path)} uses {name}" for name in _reached(node) - bound}
    return sorted(found)


def _reached(node: ast.AST) -> set[str]:
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jobrunner"):
        return {alias.name for alias in node.names if _is_private(alias.name)}
    if isinstance(node, ast.Attribute) and _is_private(node.attr):
        return {node.attr}
    return set()


def _own_private(path: PurePosixPath, tree: Tree) -> set[str]:
    """What the module itself calls so: a class may look into another of its own kind."""
    found = set()
    for node in ast.walk(_parsed(path, tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {alias.asname for alias in node.names if alias.asname}
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_ALL_THE_SAME


def sizes(tree: Tree) -> list[str]:
    """Modules, functions, folders and test modules that are too large to be read at once."""
    folders = Counter(path.parent for path in modules(tree))
    found = [
        f"{folder}: a folder of many modules" for folder in folders if folders[folder] > MODULES_MAX
    ]
    for path in (one for one in tree if one.suffix == ".py"):
        tested = "tests" in path.parts
        if tree[path].count("\n") > (TEST_LINES_MAX if tested else MODULE_LINES_MAX):
            found.append(f"{path}: a long module")
        found += [f"{path}: {name} is a long function" for name in _long_functions(path, tree)]
    return sorted(found)


def _long_functions(path: PurePosixPath, tree: Tree) -> Iterator[str]:
    for node in ast.walk(_parsed(path, tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX:
                yield node.name


def voice(tree: Tree) -> list[str]:
    """First lines that do not say what is done, and words that a newcomer stumbles over."""
    found = []
    for path in (one for one in _of(tree, "jobrunner", "plugins") if one.suffix == ".py"):
        found += [f"{_dotted(path)}: {name}" for name in _hard_to_begin(_parsed(path, tree))]
        found += [f"{_dotted(path)}: says {words!r}" for words in HARD_WORDS.findall(tree[path])]
    return sorted(set(found))


def _hard_to_begin(tree: ast.AST, above: str = "") -> Iterator[str]:
    """Whose first line begins with a word that puts off the verb, by their names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if HARD_BEGINNINGS.match(ast.get_docstring(node) or ""):
                yield f"{above}{node.name}"
            yield from _hard_to_begin(node, f"{above}{node.name}.")
    if isinstance(tree, ast.Module) and HARD_BEGINNINGS.match(ast.get_docstring(tree) or ""):
        yield "the module"


def _of(tree: Tree, *tops: str) -> list[PurePosixPath]:
    return [path for path in tree if path.parts[0] in tops and "tests" not in path.parts]


def modules(tree: Tree) -> list[PurePosixPath]:
    return [path for path in _of(tree, "jobrunner") if path.suffix == ".py"]


def _room(path: PurePosixPath) -> str:
    inner = path.parts[1:]
    return inner[0] if len(inner) > 1 else inner[0].removesuffix(".py").replace("__init__", "")


def _dotted(path: PurePosixPath) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imported(path: PurePosixPath, tree: Tree) -> set[str]:
    return {name for _, name in imports(_parsed(path, tree)) if _is_module(name, tree)}


def _is_module(name: str, tree: Tree) -> bool:
    place = PurePosixPath(*name.split("."))
    return place.with_suffix(".py") in tree or place / "__init__.py" in tree


_names: dict[tuple[PurePosixPath, str], set[str]] = {}


def _used(path: PurePosixPath, tree: Tree) -> set[str]:
    key = path, tree[path]
    if key not in _names:
        _names[key] = used(_parsed(path, tree))
    return _names[key]


_kept: dict[tuple[PurePosixPath, str], ast.Module] = {}


def _parsed(path: PurePosixPath, tree: Tree) -> ast.Module:
    key = path, tree[path]
    if key not in _kept:
        _kept[key] = ast.parse(tree[path])
    return _kept[key]


RULES: tuple[Callable[[Tree], list[str]], ...] = (
    strays,
    unasked,
    opened,
    environment,
    told_time,
    cycles,
    classes,
    namesakes,
    for_tests_only,
    private,
    sizes,
    voice,
)
