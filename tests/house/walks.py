"""Measure three ways through the service: ``python -m tests.house.walks [NAME]``.

A submission, a status callback and a stage in the loop are followed in one process, with the real
file and real HTTP: every call of the product's code, on all threads, in the order in which they
come. Three figures tell how far a reader has to walk:

    calls     functions entered. A coroutine that goes on after a wait is not entered again;
              comprehensions, lambdas and what the language calls by itself are no functions here
    modules   files that they stand in
    changes   how often the next call stands in another room (a folder or file of jobrunner/)

A request's walk begins and ends in the room ``http``. A stage's begins where it is given a slot and
ends where it gives that back. With the name of a walk, its calls are printed too.
"""

import dis
import http.client
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio

import jobrunner
from jobrunner import app
from jobrunner.config.reading import load
from jobrunner.config.settings import Config

PACKAGE = str(Path(jobrunner.__file__).parent) + os.sep
PATIENCE_S = 120
POLLS_A_SECOND = 20
ROUNDS = 5
SETTINGS = """
[server]
port = 0
[workflows.cutx.stages]
"*" = "external"
[workflows.howera.stages]
"*" = "external"
"""
SUBMISSION = {"workflow": "cutx", "job_type": "static_ad"}
WAY = ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING")
SLOTS = "actors/slots.py"
BEGINS, ENDS = "Slots.take", "Slots.give_back"


class Step(NamedTuple):
    """One call: in which file below the package, of which function."""

    path: str
    function: str

    @property
    def room(self) -> str:
        return self.path.partition("/")[0]


class Walk(NamedTuple):
    """The three figures of one walk; the shortest of several is the one without what ticks."""

    calls: int
    modules: int
    changes: int

    @classmethod
    def of(cls, steps: list[Step]) -> "Walk":
        changes = sum(before.room != after.room for before, after in pairwise(steps))
        return cls(len(steps), len({step.path for step in steps}), changes)


class Recorder:
    """Writes down each call of the product's code while it is open."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.open = False
        self._seen: dict[CodeType, tuple[Step | None, int]] = {}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if not self.open or event != "call":
            return
        code = frame.f_code
        if code not in self._seen:
            self._seen[code] = _step(code), _start(code)
        step, start = self._seen[code]
        if step is not None and frame.f_lasti <= start:
            self.steps.append(step)


def _step(code: CodeType) -> Step | None:
    """None for what is not of the product, and for what is no function of its own."""
    unnamed = code.co_name.startswith(("<", "__"))
    if unnamed or not code.co_filename.startswith(PACKAGE):
        return None
    return Step(code.co_filename.removeprefix(PACKAGE), code.co_qualname)


def _start(code: CodeType) -> int:
    """Where it begins; a coroutine that goes on stands further on."""
    return next((one.offset for one in dis.get_instructions(code) if one.opname == "RESUME"), 0)


class Client:
    """Asks the service that runs in this process, over one connection, from a thread of its own."""

    def __init__(self, url: str, token: str, recorder: Recorder) -> None:
        place = urlsplit(url)
        self._connection = socket.create_connection((place.hostname, place.port), PATIENCE_S)
        self._token = token
        self._recorder = recorder
        self.walks: dict[str, list[Step]] = {}

    def run(self) -> None:
        sys.setprofile(None)
        for number in range(ROUNDS):
            self._submission(number)
            self._callback(number)
            self._stage(number)
        self._connection.close()

    def _submission(self, number: int) -> None:
        params = {"product_id": f"product-{number}"}
        body = SUBMISSION | {"params": params, "idempotency_key": f"key-{number}"}
        self._keep("submission", _between(self._recorded("/jobs", body), _is_http))

    def _callback(self, number: int) -> None:
        job_id = self._post("/jobs", {"workflow": "howera"})["id"]
        path = f"/internal/jobs/{job_id}/status"
        for status in WAY:
            self._post(path, _event(f"way-{status}", status))
        steps = self._recorded(path, _event(f"again-{number}", "TRANSCRIBING"))
        self._keep("callback", _between(steps, _is_http))

    def _stage(self, number: int) -> None:
        """What is left of the answer to the submission falls between, and is no part of it."""
        steps = self._recorded("/jobs", {"workflow": "hello"}, _has_ended)
        self._keep("stage", [step for step in _between(steps, _is_slot) if step.room != "http"])

    def _recorded(
        self, path: str, body: dict[str, Any], over: Callable[[list[Step]], bool] = bool
    ) -> list[Step]:
        time.sleep(0.05)
        steps = self._recorder.steps = list[Step]()
        self._recorder.open = True
        self._post(path, body)
        for _ in range(PATIENCE_S * POLLS_A_SECOND):
            time.sleep(0.05)
            if over(steps):
                break
        self._recorder.open = False
        return steps

    def _keep(self, name: str, steps: list[Step]) -> None:
        """The shortest of all rounds: the first one also imports, and any may hold a tick."""
        if name not in self.walks or len(steps) < len(self.walks[name]):
            self.walks[name] = steps

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        """Head and body leave in one piece, so that they always arrive in the same way."""
        content = json.dumps(body)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: walks\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._connection.sendall((head + content).encode())
        answer = http.client.HTTPResponse(self._connection, method="POST")
        answer.begin()
        said = answer.read()
        assert answer.status < 300, said
        return json.loads(said or b"null")


def _event(event_id: str, status: str) -> dict[str, Any]:
    return {"event_id": event_id, "status": status, "occurred_at": "2026-01-01T00:00:00Z"}


def _between(steps: list[Step], is_mark: Callable[[Step], bool]) -> list[Step]:
    """From the first mark to the last."""
    marks = [number for number, step in enumerate(steps) if is_mark(step)]
    assert marks, "the walk has no beginning; are its marks called otherwise now?"
    return steps[marks[0] : marks[-1] + 1]


def _is_http(step: Step) -> bool:
    return step.room == "http"


def _is_slot(step: Step) -> bool:
    return step in {Step(SLOTS, BEGINS), Step(SLOTS, ENDS)}


def _has_ended(steps: list[Step]) -> bool:
    return Step(SLOTS, ENDS) in steps


def measure() -> dict[str, list[Step]]:
    """The calls of the shortest walk of each kind."""
    recorder = Recorder()
    with tempfile.TemporaryDirectory(prefix="jobrunner-walks-") as folder:
        file = Path(folder) / "config.toml"
        store = f'[store]\npath = "{folder}/jobs.db"\nassets = "{folder}/assets"\n'
        file.write_text(SETTINGS + store)
        threading.setprofile(recorder)
        sys.setprofile(recorder)
        try:
            return anyio.run(_walked, load(file, {}), recorder)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


async def _walked(config: Config, recorder: Recorder) -> dict[str, list[Step]]:
    async with app.running(config, _unheard) as service:
        client = Client(service.url, str(service.first_token), recorder)
        await anyio.to_thread.run_sync(client.run)
        return client.walks


def _unheard(_event: str, **_fields: object) -> None:
    """Nobody reads the log of this service."""


def main(names: Iterable[str]) -> None:
    for name, steps in measure().items():
        print(f"{name:10}  {Walk.of(steps)}")
        if name in names:
            print(*(f"    {step.path:40} {step.function}" for step in steps), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
