"""What measures the house counts what it says that it counts."""

import subprocess
import sys
from pathlib import Path, PurePosixPath

from tests.house import figures, layout, walks
from tests.house.walks import Step, Walk
from tests.served import clean

ROOT = Path(__file__).resolve().parents[2]
WORDY = '''"""What it is.

And more."""

# why
x = """a text
of two lines"""


def f():
    """Say it."""
    return (
        x
    )
'''


def test_lines_of_code_are_neither_blank_nor_words() -> None:
    assert figures.code_lines(WORDY) == 6
    assert figures.code_lines("") == 0


def test_every_figure_of_this_house_is_found() -> None:
    found = dict(figures.figures(ROOT))
    assert len(found) == 11
    assert found["module cycles"] == len(layout.cycles(layout.read(ROOT)))


def test_the_kernel_is_read_from_its_section_alone() -> None:
    design = "`a.py`\n## The kernel\n\n`core/decide.py` and `app.py`\n\n## More\n`b.py`"
    named = [PurePosixPath("jobrunner/core/decide.py"), PurePosixPath("jobrunner/app.py")]
    assert figures.kernel(design) == named


def test_a_walk_counts_calls_modules_and_changes_of_room() -> None:
    steps = [Step("http/a.py", "f"), Step("http/b.py", "g"), Step("ports.py", "h")]
    assert Walk.of([*steps, steps[0]]) == Walk(calls=4, modules=3, changes=2)


def test_what_is_not_of_the_product_or_has_no_name_is_no_step() -> None:
    assert walks._step(compile("x = 1", walks.PACKAGE + "core/a.py", "exec")) is None
    assert walks._step(walks._step.__code__) is None


def test_the_walks_can_be_walked() -> None:
    done = subprocess.run(
        (sys.executable, "-m", "tests.house.walks", "stage"),
        check=False,
        cwd=ROOT,
        env=clean(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for name in ("submission", "callback", "stage"):
        assert f"{name:10}  Walk(calls=" in done.stdout
    assert "core/decide.py" in done.stdout
