"""Print how large the house is: ``python -m tests.house.figures [FOLDER]``.

FOLDER is a checkout of the project, by itself this one. A line of code is one that is neither
blank nor a comment, nor part of a docstring.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tests.house import layout
from tests.house.layout import Tree
from tests.house.rules import imports

ROOT = Path(__file__).resolve().parents[2]
KERNEL_LINES_MAX = 6500
BLANK = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(text: str) -> int:
    """Lines that hold code."""
    told = docstrings(text)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    held = {
        line
        for token in tokens
        if token.type not in BLANK
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(held - told)


def docstrings(text: str) -> set[int]:
    """Numbers of the lines that belong to docstrings."""
    return {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }


def kernel(design: str) -> list[PurePosixPath]:
    """The modules that DESIGN.md lists under "The kernel", one path in backquotes each."""
    _, _, below = design.partition("\n## The kernel\n")
    section, _, _ = below.partition("\n## ")
    return [PurePosixPath("jobrunner", name) for name in re.findall(r"`([\w/]+\.py)`", section)]


def kernel_lines(tree: Tree, design: str) -> int:
    return sum(code_lines(tree[path]) for path in kernel(design) if path in tree)


def figures(root: Path) -> Iterator[tuple[str, object]]:
    """Each figure with its name."""
    tree = layout.read(root)
    modules = layout.modules(tree)
    folders = Counter(path.parent for path in modules)
    largest, most = folders.most_common(1)[0]
    yield "modules", len(modules)
    yield "folders", len(folders)
    yield "modules in the largest folder", f"{most} ({largest})"
    yield "class names with two meanings", len(layout.classes(tree))
    yield "module cycles", len(layout.cycles(tree))
    length, name = max(_functions(tree, modules))
    yield "longest function", f"{length} ({name})"
    longest = max(modules, key=lambda path: tree[path].count("\n"))
    yield "longest module", f"{tree[longest].count(chr(10))} ({longest})"
    yield "lines of the product", sum(tree[path].count("\n") for path in modules)
    yield "lines of code", sum(code_lines(tree[path]) for path in modules)
    yield "lines of the kernel", kernel_lines(tree, _design(root))
    asked = sum(len(_asked(tree[path])) for path in modules)
    yield "own modules that a module imports", f"{asked / len(modules):.1f}"


def _functions(tree: Tree, modules: list[PurePosixPath]) -> Iterator[tuple[int, str]]:
    for path in modules:
        for node in ast.walk(ast.parse(tree[path])):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (node.end_lineno or 0) - node.lineno + 1, f"{node.name} in {path}"


def _asked(text: str) -> set[str]:
    """Modules of this house that are named in its imports; a name out of one counts for it."""
    names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    plain = {name for _, name in imports(ast.parse(text))} - {
        f"{node.module}.{alias.name}" for node in names for alias in node.names
    }
    return {name for name in plain if name.split(".")[0] == "jobrunner"}


def _design(root: Path) -> str:
    """Of the checkout, or ours where that one has no such list."""
    text = (root / "DESIGN.md").read_text(encoding="utf-8")
    return text if kernel(text) else (ROOT / "DESIGN.md").read_text(encoding="utf-8")


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for name, value in figures(root):
        print(f"{name:35} {value}")


if __name__ == "__main__":
    main()
