"""A grant whose answer is lost is repeated under its key, and given once."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from jobrunner.client import RetryLimits
from tests.cli.conftest import Command

CODES = {503: "OUTCOME_UNKNOWN", 409: "IDEMPOTENCY_MISMATCH", 400: "VALIDATION_ERROR"}
GIVEN = {"user_id": "bob", "balance": 4, "held": 0, "replayed": True}


def problem(status: int) -> dict[str, object]:
    return {"error_code": CODES[status], "detail": "said the teller", "status": status}


class Teller(ThreadingHTTPServer):
    """Says what it is told to say, one after the other; 0 is silence. Keeps what it was sent."""

    def __init__(self, says: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), Window)
        self.says = says
        self.keys: list[str] = []


class Window(BaseHTTPRequestHandler):
    server: Teller

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.append(sent["idempotency_key"])
        status = self.server.says.pop(0)
        if not status:
            self.close_connection = True
            return
        body = json.dumps(GIVEN if status == 200 else problem(status)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def teller() -> Iterator[Teller]:
    server = Teller([])
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = RetryLimits(tries=4, first_s=0)
    monkeypatch.setattr("jobrunner.cli.frame.service.INSIST", limits)


def grant(command: Command, teller: Teller) -> tuple[int, str, str]:
    url = f"http://127.0.0.1:{teller.server_port}"
    return command("credit", "grant", "bob", "4", "--url", url, "--token", "t")


def test_silence_is_asked_again_under_one_key(command: Command, teller: Teller) -> None:
    """R4: a lost answer and an unknown outcome; the next command has another key."""
    teller.says += [0, 503, 200, 200]
    assert grant(command, teller) == (0, "", "")
    assert len(teller.keys) == 3
    assert len(set(teller.keys)) == 1
    assert grant(command, teller) == (0, "", "")
    assert len(set(teller.keys)) == 2


def test_who_never_answers_is_told_with_the_key(command: Command, teller: Teller) -> None:
    teller.says += [503] * 4
    code, _, err = grant(command, teller)
    assert code == 1
    assert len(teller.keys) == 4
    assert f"repeat it with --key {teller.keys[0]}" in err


@pytest.mark.parametrize("status", [400, 409])
def test_a_refusal_is_final(command: Command, teller: Teller, status: int) -> None:
    teller.says += [status]
    code, _, err = grant(command, teller)
    assert (code, len(teller.keys)) == (1, 1), err
