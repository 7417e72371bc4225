"""What docs/client.md shows is run, in its order, against a real service; its table of errors is
that of the client."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobrunner import client, errors
from jobrunner.errors import Refused
from tests.docs.pages import code, read, rows, snippets
from tests.served import PATIENCE_S, clean, serving

PAGE = "docs/client.md"


def test_the_page_is_run(tmp_path: Path) -> None:
    program = "\n".join(snippets(read(PAGE), "python"))
    with serving(tmp_path) as served:
        environ = clean() | {"JOBRUNNER_TOKEN": served.token}
        done = subprocess.run(
            [sys.executable, "-c", program.replace("http://127.0.0.1:8080", served.url)],
            env=environ | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    for said in ("Hello, Ada!", "$.params.name", "NOT_FOUND", "settled 100", "Hello, Grace!"):
        assert said in done.stdout, done.stdout


@pytest.mark.parametrize("row", rows(PAGE, "error"), ids=lambda row: code(row[0]))
def test_the_errors_are_those_of_the_client(row: list[str]) -> None:
    name = code(row[0])
    kind = getattr(client, name, None) or getattr(errors, name)
    for one in row[2].replace("`", "").split(", ") if row[2] else ():
        status = errors.STATUS_OF_CODE[one]
        body = b'{"error_code": "%s", "detail": "x"}' % one.encode()
        assert type(client.refusing.refusal_in(status, {}, body)) is kind, one


def test_every_error_of_the_client_is_on_the_page() -> None:
    kinds = [getattr(client, name) for name in client.__all__]
    leaves = {
        kind.__name__
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, Refused) and not kind.__subclasses__()
    }
    assert leaves <= {code(row[0]) for row in rows(PAGE, "error")}


def test_every_method_is_on_the_page() -> None:
    offered = {name for name in vars(client.Client) if not name.startswith("_")}
    text = read(PAGE)
    missing = [name for name in offered - {"line", "hold", "rest"} if name not in text]
    assert missing == []
