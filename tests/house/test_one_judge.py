"""S14: which transition is possible is judged in one room; the others ask it, or write down what it
said. The checker and the drawings read the same table, and no job."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "jobrunner"
VERDICTS = {"Hop", "Decision", "NoOp"}
TABLE = {"table", "targets", "walks", "edges"}
SHOWS_IT = {
    "actors/features/explain.py",
    "http/routes/admin/workflows.py",
    "http/frame/openapi.py",
    "cli/workflows.py",
    "config/overrides.py",
    "testing/simulation/declared.py",  # holds the file against the declaration, from beside it
}


def outside_core() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("core/", "check/", "drawing/")):
            yield from ((name, node) for node in ast.walk(ast.parse(path.read_text())))


def test_verdicts_are_made_in_one_room() -> None:
    """Nobody else makes a decision, a hop or a no-op."""
    made = [
        (name, node.func.id)
        for name, node in outside_core()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in VERDICTS
    ]
    assert made == []


def test_nobody_else_sets_a_status() -> None:
    """A status is never given to a snapshot by hand; a fresh one (``Snapshot(...)``) is only read
    from a row, or made to measure with."""
    replaced = [
        (name, node.lineno)
        for name, node in outside_core()
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) in ("replace", "_replace")
        and any(keyword.arg in ("status", "kind") for keyword in node.keywords)
    ]
    assert replaced == []


def test_nobody_else_reads_the_table_to_judge() -> None:
    """What may follow on what is shown to people in a few places, and consulted in none."""
    readers = {
        name
        for name, node in outside_core()
        if isinstance(node, ast.Attribute) and node.attr in TABLE
    }
    assert readers - SHOWS_IT == set()


@pytest.mark.parametrize("room", ["http", "actors"])
def test_doors_and_actors_call_it(room: str) -> None:
    """One place each: the door for births, the actor for everything after."""
    calls = {
        path.relative_to(ROOT / room).as_posix(): sorted(
            node.func.id
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("decide", "born")
        )
        for path in (ROOT / room).rglob("*.py")
    }
    found = {name: made for name, made in calls.items() if made}
    assert found == (
        {"actor.py": ["decide"], "features/submissions.py": ["born"]} if room == "actors" else {}
    )
