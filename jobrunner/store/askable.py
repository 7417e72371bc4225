"""Turns each question, a function over a connection, into a method of a reader."""

import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Asker(Protocol):
    async def ask(
        self,
        question: Callable[Concatenate[sqlite3.Connection, P], T],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T: ...


def asks(
    question: Callable[Concatenate[sqlite3.Connection, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method of the reader that puts this question to the file: it takes what the question takes
    behind the connection."""

    async def asked(reader: Asker, /, *arguments: P.args, **named: P.kwargs) -> T:
        return await reader.ask(question, *arguments, **named)

    return asked
