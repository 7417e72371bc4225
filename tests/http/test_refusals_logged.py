"""The id in a refusal leads to a line of the log, and to one only, on every route."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jobrunner.config.settings import LimitsSection
from jobrunner.http.frame import refusals
from tests.http.serving import Caller, House, Said, opened

pytestmark = pytest.mark.anyio

NOBODYS = "019a0000-0000-7000-8000-000000000000"


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(refusals, "LINES_PER_S", 10_000)  # of which a slow machine asks fewer
    limits = LimitsSection(lag=0, anonymous_per_second=0)
    async with opened(tmp_path, limits=limits) as found:
        yield found


def lines_of(house: House, request_id: str) -> list[dict[str, Any]]:
    return [line for line in house.logged if line.get("correlation_id") == request_id]


async def test_every_route_that_refuses_says_so(house: House) -> None:
    guess = house.caller("jr_guessed")
    count = 0
    for path, operations in house.contract.document["paths"].items():
        for method in sorted(set(operations) - {"parameters", "head"}):
            place = path.replace("{name}", "nothing").replace("{command}", "nothing")
            place = "/".join(NOBODYS if part.startswith("{") else part for part in place.split("/"))
            for who in (guess, house.ada, house.worker, house.admin):
                if place in ("/events", "/overview/events") and who is not guess:
                    continue  # a stream, which does not end
                count += 1
                said = await ask(who, method.upper(), place, f"asked-{count}")
                if said.status < 400:
                    continue
                found = lines_of(house, f"asked-{count}")
                assert len(found) == 1, (method, place, said.status, found)
                assert found[0]["error_code"] == said.code
                assert said.json["correlation_id"] == f"asked-{count}"
    assert count > 200


async def ask(who: Caller, method: str, path: str, request_id: str) -> Said:
    body = None if method in ("GET", "DELETE") else {"no": "such field"}
    return await who.ask(method, path, body, headers={"X-Request-Id": request_id})


async def test_whatever_refuses_a_job_has_one_line_about_it(house: House) -> None:
    """A command, a callback, a move, a claim, an edit, a submission: under the id of the request
    and with the job that it was about."""
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}"
    event = {"event_id": "e", "status": "DONE", "occurred_at": "2026-01-01T00:00:00Z"}
    asks: list[tuple[Caller, str, str, Any, str]] = [
        (house.ada, "POST", f"{path}/export", {"format": "PDF"}, "ILLEGAL_TRANSITION"),
        (house.worker, "POST", f"/internal{path}/status", event, "ILLEGAL_TRANSITION"),
        (house.ada, "POST", f"{path}/transitions", {"to": "FAILED"}, "FORBIDDEN"),
        (house.worker, "POST", f"{path}/claim", None, ""),
        (house.ada, "PUT", f"{path}/artifacts/draft", {"value": "x"}, "JOB_LOCKED"),
        (house.ada, "POST", "/jobs", {"workflow": "howera", "params": {"a": 1}}, "INVALID_PARAMS"),
        (house.ada, "GET", f"{path}/artifacts/none", None, "NOT_FOUND"),
        (house.eve, "GET", path, None, "NOT_FOUND"),
    ]
    for number, (who, method, place, body, code) in enumerate(asks):
        headers = {"X-Request-Id": f"job-{number}"}
        said = await who.ask(method, place, body, headers=headers)
        assert said.status >= 400, said.raw
        (line,) = lines_of(house, f"job-{number}")
        assert line["error_code"] == said.code
        assert said.code == code or not code
        assert line["level"] == "warning"
        assert (line.get("job_id") == job["id"]) == (job["id"] in place)


async def test_a_crowd_cannot_fill_the_log(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What strangers are refused is counted when it is too much; others keep their lines."""
    monkeypatch.setattr(refusals, "LINES_PER_S", 0)
    for number in range(5):
        await house.nobody.get("/jobs", X_Request_Id=f"crowd-{number}")
        await house.ada.get(f"/jobs/{NOBODYS}", X_Request_Id=f"known-{number}")
    lines = [line.get("correlation_id") for line in house.logged]
    assert not [one for one in lines if one and one.startswith("crowd-")]
    assert all(f"known-{number}" in lines for number in range(5))
