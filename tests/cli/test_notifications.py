"""``delivery`` and ``notify``, over a running service and a receiver that changes its mind."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

from tests.cli.conftest import Command
from tests.served import PATIENCE_S, serving


@contextmanager
def receiver(*statuses: int) -> Iterator[tuple[str, list[str]]]:
    """Answers in turn; the last one for ever. Where it is, and the ids that it got."""
    left, ids = list(statuses), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            ids.append(self.headers["webhook-id"])
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Stdout is the tests'."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", ids
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def rows(command: Command, *arguments: str, count: int = 1) -> list[dict[str, object]]:
    """What a list shows, as soon as it shows so many."""
    for _ in range(PATIENCE_S * 50):
        code, out, err = command(*arguments, "-o", "json")
        assert code == 0, err
        found: list[dict[str, object]] = json.loads(out)
        if len(found) == count:
            return found
        sleep(0.02)
    raise AssertionError(f"{arguments}: {found}")


def test_what_is_gone_is_seen_enabled_and_told_again(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        receiver(410, 200) as (place, ids),
        serving(tmp_path, JOBRUNNER_DOWNLOADS__ALLOW_PRIVATE=f'["{place}"]') as served,
    ):
        monkeypatch.setenv("JOBRUNNER_URL", served.url)
        url = f"http://{place}/hook?key=secret"
        options = ("--notify-url", url, "--notify-on", "ended", "--notify-on", "stuck", "-o", "ids")
        code, out, err = command("job", "submit", "howera", *options)
        assert code == 0, err
        job_id = out.strip()
        assert command("job", "cancel", job_id)[0] == 0

        (held,) = rows(command, "delivery", "list", "--status", "disabled", "--job", job_id)
        assert (held["type"], held["tried"]) == ("job.ended", 1)
        (endpoint,) = rows(command, "delivery", "endpoints")
        assert "secret" not in str((held, endpoint))
        code, _, err = command("delivery", "redeliver", str(held["id"]))
        assert (code, err.startswith("ENDPOINT_DISABLED")) == (1, True)

        assert command("delivery", "enable", str(endpoint["id"]))[0] == 0
        rows(command, "delivery", "list", "--status", "delivered")
        assert rows(command, "delivery", "endpoints", count=0) == []
        assert len(rows(command, "delivery", "endpoints", "--all")) == 1
        code, out, _ = command("delivery", "redeliver", str(held["id"]), "-o", "ids")
        assert (code, out.strip()) == (0, held["id"])
        rows(command, "delivery", "list", "--status", "delivered")
        assert set(ids) == {held["id"]}
        assert command("delivery", "redeliver", "nothing")[0] == 4
        assert command("delivery", "enable", "77")[0] == 4


def test_secrets_are_printed_and_rotated(tmp_path: Path, command: Command) -> None:
    (tmp_path / "data").mkdir()
    code, first, err = command("notify", "secret", "--user", "ann")
    assert (code, first[:6], len(first.splitlines())) == (0, "whsec_", 1), err
    assert command("notify", "secret", "--user", "ann")[1] == first
    assert command("notify", "secret", "--workflow", "ann")[1] != first
    assert command("notify", "rotate")[0] == 0
    assert command("notify", "secret", "--user", "ann")[1].splitlines()[1:] == first.splitlines()
    assert (tmp_path / "data" / "notify.secret").stat().st_mode & 0o777 == 0o600


def test_secrets_of_the_environment_are_not_ours_to_rotate(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBRUNNER_NOTIFY__SECRETS_ENV", "MASTER")
    monkeypatch.setenv("MASTER", "m" * 40)
    assert command("notify", "secret", "--user", "ann")[1].startswith("whsec_")
    code, _, err = command("notify", "rotate")
    assert (code, "secrets_env" in err) == (2, True)
    assert command("notify", "secret")[0] == 2
