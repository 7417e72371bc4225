"""Texts of a stranger's table where a person reads them: one line, of bounded length, of letters
that can be seen.
"""

LETTERS_MAX = 40


def shown(text: object, longest: int = LETTERS_MAX) -> str:
    """The beginning of it, with an ellipsis where it is cut."""
    whole = str(text)
    line = seen(whole[: 4 * longest])
    cut = len(line) > longest or len(whole) > 4 * longest
    return f"{line[:longest]}…" if cut else line


def seen(text: str) -> str:
    """On one line, without signs that nobody sees."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
