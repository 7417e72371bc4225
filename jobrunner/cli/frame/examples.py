"""Examples at the end of a command's help, one a line, each as it can be typed."""

from collections.abc import Callable
from typing import Any

BEGINNING = "Examples:"
Examples = dict[Callable[..., Any], str]


def examples(*lines: str) -> str:
    """Write examples as Markdown that keeps the lines apart."""
    shown = "  \n".join(f"`{line}`" for line in lines)
    return f"{BEGINNING}\n\n{shown}"
