"""What stands in the way of a start is said, all of it, and nothing else happens."""

import shutil
import socket
import sqlite3
from pathlib import Path

import pytest

from tests.whole.process import Place, place

pytestmark = pytest.mark.anyio


async def refused(home: Place) -> str:
    """What a start that is refused says: no traceback, exit code 1."""
    home.spawn()
    assert await home.ended() == 1, home.said()
    said = home.said()
    assert "Traceback" not in said, said
    return said


async def test_a_service_starts_serves_and_stops(service: Place) -> None:
    job = await service.submit("hello", params={"name": "Ada"})
    assert (await service.at(job["id"], "greeted"))["result"] == {"greeting": "Hello, Ada!"}
    assert (await service.get("/admin/db/check", "admin") if False else await service.post(
        "/admin/db/check")).body["faults"] == []
    assert await service.stop() == 0
    assert service.faults() == ()
    assert service.log("service.stopped")
