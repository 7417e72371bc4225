"""Find out what a module uses, by the names that things have where they come from."""

import ast
from collections.abc import Iterator


def used(tree: ast.Module) -> set[str]:
    """Dotted names of all that is used, whatever it is called here: ``from os import environ as e``
    and then ``e`` is ``os.environ``, and so is ``o.environ`` after ``import os as o``."""
    origins = dict(_imported(tree))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            name, _, rest = ast.unparse(node).partition(".")
            found.add(".".join(filter(None, (origins.get(name, name), rest))))
    return found


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What a name of this module stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
