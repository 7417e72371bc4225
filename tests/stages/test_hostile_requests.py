"""A stage in a process of its own that does not speak through its context."""

from pathlib import Path

import pytest

from tests.stages.speaking import MIB, PNG, dripping, listening
from tests.stages.test_host_answers import done, house

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        ("name", "BAD_FILE_NAME"),
        ("patience", "BAD_REQUEST"),
        ("redirects", "BAD_REQUEST"),
        ("size", "DOWNLOAD_TOO_LARGE"),
        ("method", "BAD_REQUEST"),
        ("scheme", "DOWNLOAD_REFUSED"),
        ("limit", "BAD_REQUEST"),
    ],
)
async def test_what_it_asks_for_is_checked_where_it_is_done(
    tmp_path: Path, lie: str, code: str
) -> None:
    async with listening() as server:
        server.says("/large", PNG + bytes(17 * MIB))
        async with house(tmp_path, server) as here:
            job = await done(here, "process", "lie", "/large", name=lie)
            assert job["result"][:2] == ["CarriedFault", code], job
            if lie == "size":  # of what is held in our own memory
                assert "larger than 16777216 bytes" in job["result"][2]
        if lie not in ("size", "name"):
            assert server.seen == []
    assert not list(tmp_path.rglob("out.png*"))


async def test_one_question_at_a_time(tmp_path: Path) -> None:
    """Else one attempt could have any number of connections."""
    async with listening() as server:
        server.plays("/slow", dripping)
        async with house(tmp_path, server) as here:
            job = await done(here, "process", "lie", "/slow", name="twice")
            assert job["failure_code"] == "STAGE_CRASHED"
            assert "second time" in job["failure_message"]
