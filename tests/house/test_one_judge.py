"""S14: the rules of transitions live in one component; whoever wants to move a job asks it."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JUDGES = {
    f"jobrunner.core.{name}"
    for name in (
        "answers", "attempts", "birth", "commands", "decide", "draft", "failures", "inside",
        "money", "moves", "outside", "requests",
    )
}
MAY_ASK = {"jobrunner.core.decide", "jobrunner.core.birth"}


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }


def test_only_actors_ask_and_nobody_judges_beside() -> None:
    """S14: outside ``core`` its rules are neither repeated nor reached around: the actors ask the
    two public functions, and every other room goes through the actors."""
    found = {}
    for path in sorted((ROOT / "jobrunner").rglob("*.py")):
        room = path.relative_to(ROOT / "jobrunner").parts[0]
        judges = imported(path) & JUDGES
        allowed = MAY_ASK if room == "actors" else set()
        if room not in ("core", "testing") and judges - allowed:
            found[str(path)] = judges - allowed
    assert not found


def test_somebody_does_ask() -> None:
    asking = set().union(*(imported(path) for path in (ROOT / "jobrunner/actors").glob("*.py")))
    assert asking >= {"jobrunner.core.decide"}
