"""Names of columns in the words of a requirement, and what looking for them costs."""

import resource
import subprocess
import sys

import pytest
from jobrunner_ss.words import Words

CPU_S = 10
COSTLY = """
from jobrunner_ss.drafting import proposed
words = {requirement}
columns = [{{"name": name, "kind": "numeric", "mean": 1}} for name in {names}]
assert len(columns) == 500
proposed(columns, 10, words)
"""


@pytest.mark.parametrize(
    ("name", "words", "place"),
    [
        ("sales", "Explain the SALES", 12),
        ("unit price", "by unit_price", 3),
        ("unit_price", "by unit price", 3),
        ("Unit-Price", "by unitprice", 3),
        ("%sales", "by sales", 3),
        ("_sales", "by _sales", 4),
        ("price", "by unit_price", None),
        ("unit", "by unit_price", None),
        ("cat", "category", None),
        ("ego", "category", None),
        ("a b", "x a, b", 2),
        ("ab", "xab ab", 4),
        ("größe", "nach Größe", 5),
        ("%", "50 % of it", None),
        ("", "anything", None),
    ],
)
def test_a_name_is_found_as_a_word_of_its_own(name: str, words: str, place: int | None) -> None:
    assert Words(words).place(name) == place


@pytest.mark.parametrize(
    ("requirement", "names"),
    [
        ("'-' * 20_000", "[f'-a{n}' for n in range(500)]"),
        ("'_' * 20_000", "[f'_a{n}' for n in range(500)]"),
        ("'a' * 20_000", "['a' * (n + 1) for n in range(200)] + ['b'] * 300"),
        ("'a ' * 10_000", "['a' * (n % 200) + 'b' for n in range(500)]"),
        ("'xa ' * 6_000", "['a' + 'xa' * (n % 60) for n in range(500)]"),
        ("'the ' * 5_000", "['the'] * 500"),
        ("'on a-' * 4_000", "[f'a{n}' for n in range(499)] + ['a']"),
    ],
)
def test_whatever_the_words_are_drafting_ends(requirement: str, names: str) -> None:
    """A time that grew with the square of the words would be minutes: the kernel counts it."""
    code = COSTLY.format(requirement=requirement, names=names)
    done = subprocess.run(
        (sys.executable, "-c", code),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
