"""What stages reach beyond their jobs, in the loop, in a thread and in a process: the network under
the guard, and the files of their owners."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.ports import SystemConnector, SystemFiles
from tests.stages.house import attempts, over, until
from tests.stages.reaching import FORMS, registry
from tests.stages.speaking import MIB, PNG, Server, dripping, listening, moved
from tests.whole.living import Living, living

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("form", FORMS)]


@asynccontextmanager
async def house(
    folder: Path, server: Server | None = None, limit_s: float = 60, **ports: Any
) -> AsyncIterator[Living]:
    """The server's address stands in the settings."""
    settings = {"base_url": server.url} if server else {}
    async with living(folder, registry(settings, limit_s), **ports) as here:
        yield here


async def done(here: Living, form: str, does: str, url: str = "", **params: str) -> Any:
    """The job when it is over, submitted by an admin."""
    return await over(here, await sent(here, form, does, url, **params))


async def sent(here: Living, form: str, does: str, url: str = "", **params: str) -> str:
    body = {"workflow": form, "params": {"does": does, "url": url, **params}}
    said = await here.admin.post("/jobs", body)
    assert said.status == 201, said
    return str(said.json["id"])


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with listening() as open_server:
        yield open_server


async def test_a_stage_asks_the_origin_in_its_settings(
    tmp_path: Path, server: Server, form: str
) -> None:
    """R11: what the operator wrote into the settings of a workflow is open to its stages."""
    server.says("/hello", b"good day")
    async with house(tmp_path, server) as here:
        job = await done(here, form, "get", "/hello")
        assert job["result"] == {"status": 200, "body": "good day", "size": 8}
        posted = await done(here, form, "post", "/hello")
        assert posted["status"] == "done"
    asked = server.seen[-1]
    assert (asked.method, asked.body, asked.headers["x-mine"]) == ("POST", b'{"a":[1]}', "yes")
    assert asked.headers["content-type"] == "application/json"


async def test_failures_come_as_what_they_are(tmp_path: Path, server: Server, form: str) -> None:
    """H45 H46 C42: also out of another process, with their Retry-After."""
    server.says("/busy", b"later", "429 Too Many Requests", Retry_After="7")
    server.says("/no", b"why", "403 Forbidden")
    async with house(tmp_path, server) as here:
        found = await done(here, form, "exchange", "/busy")
        assert found["result"]["status"] == 429
        limited = await sent(here, form, "get", "/busy")
        assert (await over(here, limited))["failure_code"] == "RATE_LIMITED"
        assert (await done(here, form, "get", "/no"))["failure_code"] == "REMOTE_REFUSED"
        assert (await done(here, form, "odd", "/no"))["failure_code"] == "BAD_REQUEST"
        assert (await done(here, form, "split", "/no"))["failure_code"] == "BAD_REQUEST"
    assert not any("x-other" in asked.headers for asked in server.seen)


async def test_an_answer_that_is_too_large_is_refused(
    tmp_path: Path, server: Server, form: str
) -> None:
    """A process is handed what fits into one message; as a file it may be larger."""
    server.says("/large", b"x" * (17 * MIB))
    async with house(tmp_path, server) as here:
        job = await done(here, form, "get", "/large")
        assert job["failure_code"] == "DOWNLOAD_TOO_LARGE"
        wished = await done(here, form, "large", "/large")
        if form == "process":
            assert wished["failure_code"] == "DOWNLOAD_TOO_LARGE"
            assert "ctx.download" in wished["failure_message"]
            sends = await done(here, form, "send", "/large", name=str(17 * MIB))
            assert sends["failure_code"] == "BAD_REQUEST"
        else:
            assert wished["result"]["size"] == 17 * MIB


async def test_a_stranger_is_not_asked(tmp_path: Path, server: Server, form: str) -> None:
    """P9 R11: not by its address, and not through a redirect of somebody who may be asked."""
    async with listening() as stranger:
        stranger.says("/secret", b"inside")
        server.plays("/away", moved(f"{stranger.url}/secret"))
        async with house(tmp_path / "alone") as here:
            for does in ("get", "download"):
                job = await done(here, form, does, f"{stranger.url}/secret")
                assert job["failure_code"] == "DOWNLOAD_REFUSED", job
        async with house(tmp_path, server) as here:
            for does in ("get", "download"):
                job = await done(here, form, does, "/away")
                assert job["failure_code"] == "DOWNLOAD_REFUSED", job
        assert stranger.seen == []


async def test_a_file_comes_into_the_scratch_folder(
    tmp_path: Path, server: Server, form: str
) -> None:
    """P10 H41: checked by its first bytes, and gone with the attempt."""
    server.says("/a.png", PNG)
    server.says("/page", b"<html>no picture</html>")
    async with house(tmp_path, server) as here:
        job = await done(here, form, "download", "/a.png")
        digest = hashlib.sha256(PNG).hexdigest()
        assert job["result"] == {"size": len(PNG), "sha256": digest, "type": "image/png"}
        page = await done(here, form, "download", "/page")
        assert page["failure_code"] == "DOWNLOAD_WRONG_TYPE"
        out = await done(here, form, "download", "/a.png", name="../../out.png")
        assert out["failure_code"] == "BAD_FILE_NAME"
        await until(lambda: leftovers(tmp_path) == [])
    assert not list(tmp_path.rglob("out.png"))


async def test_a_download_that_is_cancelled_leaves_nothing(
    tmp_path: Path, server: Server, form: str
) -> None:
    """No file, no connection, no slot; and the line that the stage wrote is kept."""
    server.plays("/slow", dripping)
    async with house(tmp_path, server) as here:
        job_id = await sent(here, form, "download", "/slow")
        await until(lambda: any(path.endswith(".part") for path in leftovers(tmp_path)))
        assert (await here.moved(job_id, "canceled")).status == 200
        await until(lambda: server.connections == 0 and leftovers(tmp_path) == [])
        await until(lambda: here.service.facade.stats()["running"] == 0)
        await lines(here, job_id, "about to download")


async def test_the_lines_of_an_attempt_that_ran_out_of_time_are_kept(
    tmp_path: Path, server: Server, form: str
) -> None:
    server.plays("/slow", dripping)
    async with house(tmp_path, server, limit_s=10 if form == "process" else 1.5) as here:
        job_id = await sent(here, form, "get", "/slow")
        assert (await over(here, job_id))["failure_code"] == "STAGE_TIMEOUT"
        await lines(here, job_id, "about to get")
        await until(lambda: server.connections == 0)


async def test_only_the_owners_files_are_there(tmp_path: Path, form: str) -> None:
    """S24: somebody else's file is as if there were none, whatever it is called by."""
    async with house(tmp_path) as here:
        made = [await shelved(here, form, here.admin, "mine") for _ in range(2)]
        foreign = await shelved(here, form, here.ada, "hers")
        url = f"/assets/{made[0]}/content"
        for which in (made[0], url, here.service.url + url):
            found = await done(here, form, "asset", which)
            assert found["result"] == {"id": made[0], "text": "mine"}, found
        assert (await done(here, form, "library"))["result"] == made[::-1]
        assert (await done(here, form, "library", "image"))["result"] == []
        for which in (foreign, f"/assets/{foreign}/content", "../../jobs.db", "", "x" * 300):
            found = await done(here, form, "asset", which)
            assert found["failure_code"] == "ASSET_NOT_FOUND", found


async def test_a_damaged_file_is_not_handed_out(tmp_path: Path, form: str) -> None:
    """H40 H44."""
    async with house(tmp_path) as here:
        asset_id = await shelved(here, form, here.admin, "mine")
        (place,) = (tmp_path / "assets").rglob("a.txt")
        place.write_text("Mine")
        found = await done(here, form, "asset", asset_id)
        assert found["failure_code"] == "CORRUPT_INPUT"


async def test_a_disk_that_is_nearly_full_is_left_alone(
    tmp_path: Path, server: Server, form: str
) -> None:
    """What a stage writes never takes the last of the disk from the store; it may work later."""
    server.says("/a.png", PNG)

    class Little(SystemFiles):
        def free(self, path: str) -> int:
            return 256 * MIB + len(PNG) - 1

    async with house(tmp_path, server, files=Little()) as here:
        job = await done(here, form, "download", "/a.png")
        assert job["failure_code"] == "STORAGE_FAILED"
        assert "min_free" in job["failure_message"]
        if form != "process":  # which looks at the disk itself
            saved = await done(here, form, "save", "x" * (len(PNG) + 1))
            assert saved["failure_code"] == "STORAGE_FAILED"
            assert (await done(here, form, "save", "fits"))["status"] == "done"


async def test_where_providers_call_back(tmp_path: Path, form: str) -> None:
    async with house(tmp_path) as here:
        job = await done(here, form, "where")
        assert job["result"] == f"{here.service.url}/webhooks/provider"
        assert (await done(here, form, "scratch"))["result"] == []


async def test_without_a_way_out_a_stage_is_told_so(tmp_path: Path, form: str) -> None:
    async with house(tmp_path, connector=None) as here:
        job = await done(here, form, "get", "http://example.com/")
        assert job["failure_code"] == "NO_WAY_OUT"


async def test_the_service_looks_up_and_connects_by_its_own_port(
    tmp_path: Path, server: Server, form: str
) -> None:
    """P9: every connection is made by the connector that the service was given."""
    met: list[int] = []

    class Noting(SystemConnector):
        def guarded(self, judge: Any) -> Any:
            def noted(address: str, port: int) -> None:
                met.append(port)
                judge(address, port)

            return super().guarded(noted)

    server.says("/hello", b"good day")
    async with house(tmp_path, server, connector=Noting()) as here:
        assert (await done(here, form, "get", "/hello"))["status"] == "done"
    assert met == [server.port]


def leftovers(folder: Path) -> list[str]:
    return [str(path) for path in (folder / "assets" / ".scratch").rglob("*") if path.is_file()]


async def shelved(here: Living, form: str, caller: Any, text: str) -> str:
    """The id of a file that a job of this caller made."""
    body = {"workflow": form, "params": {"does": "save", "url": text}}
    said = await caller.post("/jobs", body)
    assert said.status == 201, said
    job = await over(here, said.json["id"])
    return str(job["result"]["id"])


async def lines(here: Living, job_id: str, line: str) -> None:
    """The last attempt has this line; it may come a moment after its end."""
    with anyio.fail_after(120):
        while line not in (await attempts(here, job_id))[-1]["log"]:
            await anyio.sleep(0.02)
