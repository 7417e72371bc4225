"""What is true for every request: who is asking, what is sent, and how it is answered."""

import asyncio
import re
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from jobrunner.config.settings import ServerSection
from jobrunner.http.frame.endpoint import ANYBODY
from jobrunner.http.routes.table import CORE, TAKEN
from tests.http.serving import JSON, House, opened

pytestmark = pytest.mark.anyio

MISSING = "01900000-0000-7000-8000-000000000000"
GUARDED = [endpoint for endpoint in CORE if endpoint.roles is not None]
# As a proxy on this machine says that somebody elsewhere asks.
FROM_AFAR = {"X-Forwarded-For": "203.0.113.7"}
FILLED = {"id": MISSING, "part": "docs.css", "name": "thing", "user": "ada", "command": "cancel",
          "delivery": "d", "source": "s", "key": "active_jobs",
          "token": "t", "build": "b"}  # fmt: skip

TUS = {"Tus-Resumable": "1.0.0"}


def address(path: str) -> str:
    return path.format(**FILLED)


async def test_liveness_needs_no_token(house: House) -> None:
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs", "/metrics"):
        assert (await house.nobody.get(path)).status == 200


@pytest.mark.parametrize("endpoint", GUARDED, ids=lambda one: f"{one.method} {one.path}")
async def test_everything_else_does(house: House, endpoint: object) -> None:
    method, path = endpoint.method, address(endpoint.path)  # type: ignore[attr-defined]
    for caller in (house.nobody, house.caller("no-such-token")):
        said = await caller.ask(method, path, headers=FROM_AFAR)
        assert (said.status, said.code) == (401, "UNAUTHORIZED")
        assert said.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("endpoint", GUARDED, ids=lambda one: f"{one.method} {one.path}")
async def test_a_role_that_an_endpoint_is_not_for(house: House, endpoint: object) -> None:
    roles: frozenset[str] = endpoint.roles  # type: ignore[attr-defined]
    method, path = endpoint.method, address(endpoint.path)  # type: ignore[attr-defined]
    callers = {"user": house.ada, "workflow": house.worker, "admin": house.admin}
    for role in sorted(ANYBODY - roles):
        said = await callers[role].ask(method, path, headers=FROM_AFAR)
        assert (said.status, said.code) == (403, "FORBIDDEN")


@pytest.mark.parametrize("endpoint", GUARDED, ids=lambda one: f"{one.method} {one.path}")
async def test_ids_of_any_shape_are_not_found(house: House, endpoint: object) -> None:
    path = str(endpoint.path)  # type: ignore[attr-defined]
    if "{id}" not in path:
        return
    bodies = {
        "/jobs/{id}/transitions": {"to": "x"},
        "/internal/jobs/{id}/status": {
            "event_id": "e", "status": "x", "occurred_at": "2026-01-01T00:00:00Z",
        },
        "/jobs/{id}/artifacts/{name}": {"value": 1},
        "/jobs/{id}/answers/{name}": {"yes": True},
        "/batches/{id}/jobs": {"jobs": [{"workflow": "howera"}]},
        "/internal/jobs/{id}/outcome": {"id": "o", "claim": 1, "outcome": "done"},
        "/internal/jobs/{id}/checkpoint": {"id": "o", "claim": 1},
        "/internal/jobs/{id}/kept": {"claim": 1, "name": "n", "value": 1},
    }  # fmt: skip
    body = bodies.get(path) if endpoint.method != "GET" else None  # type: ignore[attr-defined]
    for job_id in (MISSING, "0", "..%2f..", "%00", "a" * 3000, MISSING.upper(), "%F0%9F%98%80"):
        asked = path.replace("{id}", job_id).format(**FILLED)
        method: str = endpoint.method  # type: ignore[attr-defined]
        said = await house.admin.ask(method, asked, body, headers=TUS)
        assert (said.status, said.code) == (404, "NOT_FOUND"), job_id


async def test_unknown_paths_are_not_found_with_and_without_a_token(house: House) -> None:
    for caller in (house.nobody, house.admin):
        for path in ("/nothing", "/jobs//", "/jobs/a/b/c/d", "/%2e%2e/etc", "//"):
            said = await caller.get(path)
            assert (said.status, said.code) == (404, "NOT_FOUND")


async def test_a_wrong_method_names_the_right_ones(house: House) -> None:
    for path in sorted({path for _, path in TAKEN}):
        known = {method for method, other in TAKEN if other == path}
        if path.startswith("/jobs/{id}/") and "POST" not in known:
            continue  # a POST there is a command
        wrong = "DELETE" if "PATCH" in known else "PATCH"
        if wrong in known:
            wrong = "PUT"
        said = await house.admin.ask(wrong, address(path))
        assert (said.status, said.code) == (405, "METHOD_NOT_ALLOWED")
        allowed = {one.strip() for one in said.headers["Allow"].split(",")}
        assert known <= allowed


async def test_the_request_id_is_echoed_made_or_replaced(house: House) -> None:
    said = await house.ada.get("/jobs/nothing", X_Request_Id="trace-1")
    assert said.headers["X-Request-Id"] == "trace-1" == said.json["correlation_id"]
    for bad in ("", "ä b", "a b", "x" * 129):
        said = await house.ada.get("/jobs", X_Request_Id=bad)
        assert said.headers["X-Request-Id"] not in ("", bad)
    job = (await house.ada.post("/jobs", {"workflow": "howera"}, X_Request_Id="trace-2")).json
    assert job["correlation_id"] == "trace-2"


async def test_every_answer_is_marked_as_private_and_typed(house: House) -> None:
    for path in ("/jobs", "/nothing", "/healthz"):
        said = await house.ada.get(path)
        assert said.headers["X-Content-Type-Options"] == "nosniff"
        assert said.headers["Cache-Control"] == "no-store"
        assert "aiohttp" not in said.headers["Server"]


async def test_head_is_get_without_a_body(house: House) -> None:
    said = await house.nobody.ask("HEAD", "/healthz")
    assert (said.status, said.raw) == (200, b"")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "a/b"])
async def test_bodies_are_json_by_name(house: House, content_type: str) -> None:
    said = await house.ada.ask(
        "POST", "/jobs", {"workflow": "howera"}, headers={"Content-Type": content_type}
    )
    assert (said.status, said.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "application/json; charset=utf-16"}, {"Content-Encoding": "gzip"}],
)
async def test_bodies_are_plain_utf_8(house: House, headers: dict[str, str]) -> None:
    said = await house.ada.ask("POST", "/jobs", {"workflow": "howera"}, headers=headers)
    assert (said.status, said.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


async def test_a_charset_that_means_utf_8_is_fine(house: House) -> None:
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    said = await house.ada.ask("POST", "/jobs", {"workflow": "howera"}, headers=headers)
    assert said.status == 201


async def test_a_body_that_is_too_large(house: House) -> None:
    body = {"workflow": "howera", "labels": {"a": "x" * 300_000}}
    said = await house.ada.post("/jobs", body)
    assert (said.status, said.code) == (413, "BODY_TOO_LARGE")
    said = await house.ada.ask("POST", "/jobs", data=BytesIO(b"[" * 10_000_000))
    assert (said.status, said.code) == (413, "BODY_TOO_LARGE")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"workflow":"howera","params":' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"workflow":"howera","params":{"n":9007199254740993}}',
        b'{"workflow":"howera","surprise":1}',
        b'{"workflow":1}',
    ],
)
async def test_bodies_that_are_not_what_they_should_be(house: House, data: bytes) -> None:
    said = await house.ada.ask("POST", "/jobs", data=data, headers={"Content-Type": JSON})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert said.json["errors"][0].keys() == {"path", "message"}


async def test_what_is_said_in_a_query_is_checked_too(house: House) -> None:
    for query in (
        "limit=0", "limit=101", "limit=x", "limit=1&limit=2", "cursor=5", "offset=10001",
        "surprise=1", "order=up", "include=secrets", "label=x", "offset=1&cursor=c1-5",
        "id=019a1b2", "id=019A1B2C", "id=019a1b2c%25", "id=",
    ):  # fmt: skip
        said = await house.ada.get(f"/jobs?{query}")
        assert (said.status, said.code) == (400, "VALIDATION_ERROR"), query


async def raw(house: House, data: bytes) -> bytes:
    """What the server answers to bytes that no client library would send."""
    place = urlsplit(house.service.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(data)
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    "framing",
    [
        b"Transfer-Encoding: identity, chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n",
        b"Content-Length: +2\r\n",
    ],
)
async def test_nobody_smuggles_a_second_request(house: House, framing: bytes) -> None:
    token = (house.ada.token or "").encode()
    head = (
        b"POST /jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "
        + token
        + b"\r\n"
    )
    order = b'{"workflow":"howera"}'
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(order), order)
    answered = await raw(
        house, head + b"Content-Type: application/json\r\n" + framing + b"\r\n" + body
    )
    assert re.match(rb"HTTP/1.[01] 4\d\d", answered), answered[:200]
    assert b" 201 " not in answered


async def test_a_chunked_body_is_fine(house: House) -> None:
    """The request above, framed as it should be."""
    order = b'{"workflow":"howera"}'
    answered = await raw(
        house,
        b"POST /jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "
        + (house.ada.token or "").encode()
        + b"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"%x\r\n%b\r\n0\r\n\r\n" % (len(order), order),
    )
    assert answered.startswith(b"HTTP/1.1 201"), answered[:200]


async def test_a_body_that_never_comes_does_not_hold_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobrunner.http.frame.server.read", impatient)
    async with opened(tmp_path) as house:
        token = (house.ada.token or "").encode()
        place = urlsplit(house.service.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(
            b"POST /jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token
            + b"\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
        )  # fmt: skip
        answered = await reader.read()
        writer.close()
        assert answered.startswith(b"HTTP/1.1 408")
        assert b"BODY_TIMEOUT" in answered


async def impatient(request: object, settings: object, **more: object) -> bytes:
    from jobrunner.http.frame import bodies

    short = msgspec.structs.replace(settings, read_timeout_s=0.05)  # type: ignore[type-var]
    return await bodies.read(request, short, **more)  # type: ignore[arg-type]


async def test_without_tokens_whoever_reaches_the_port_is_the_admin(tmp_path: Path) -> None:
    async with opened(tmp_path, mode="none") as house:
        said = await house.nobody.get("/credits")
        assert said.json["user_id"] == "local"
        assert (await house.nobody.get("/admin/audit")).status == 200
        job = await house.nobody.submit("howera")
        assert job["user_id"] == "local"


async def test_a_smaller_limit_of_size_is_kept(tmp_path: Path) -> None:
    async with opened(
        tmp_path, server=ServerSection(port=0, max_body=100, drain_seconds=1)
    ) as house:
        said = await house.ada.post("/jobs", {"workflow": "howera", "labels": {"a": "x" * 100}})
        assert said.status == 413


@pytest.mark.parametrize(
    "head",
    [
        b"GET /jobs/%FF HTTP/1.1\r\n",
        b"GET /jobs/%ED%A0%80 HTTP/1.1\r\n",
        b"GET /jobs/\xff HTTP/1.1\r\n",
        b"GET /assets/%FF HTTP/1.1\r\n",
        b"GET /assets/\xff HTTP/1.1\r\n",
        b"GET /workflows/%FF HTTP/1.1\r\n",
        b"GET /workflows/\xff HTTP/1.1\r\n",
        b"DELETE /admin/tokens/\xff HTTP/1.1\r\n",
        b"DELETE /admin/tokens/%FF HTTP/1.1\r\n",
        b"GET /jobs?user_id=%FF HTTP/1.1\r\n",
        b"GET /jobs?label=%FF:%FF HTTP/1.1\r\n",
        b"GET /jobs?status=%00&workflow=%ED%A0%80 HTTP/1.1\r\n",
        b"GET /jobs?\xff=\xff HTTP/1.1\r\n",
        b"GET /jobs?cursor=\xff HTTP/1.1\r\n",
        b"GET /jobs HTTP/1.1\r\nX-Request-Id: \xff\r\n",
        b"GET /nothing HTTP/1.1\r\nX-Request-Id: \xff\r\n",
        b"GET /jobs HTTP/1.1\r\nAuthorization: Bearer \xff\r\n",
        b"GET /JOB HTTP/1.1\r\nIf-None-Match: \xff\r\n",
        b"POST /JOB/cancel HTTP/1.1\r\nIf-Match: \xff\r\n",
        b"POST /JOB/%FF HTTP/1.1\r\n",
        b"GET /JOB/artifacts/%FF HTTP/1.1\r\n",
        b"GET /JOB/artifacts/\xff HTTP/1.1\r\n",
        b"PUT /JOB/artifacts/%FF HTTP/1.1\r\nBODY {\"value\":1}",
        b"POST /jobs HTTP/1.1\r\nIdempotency-Key: \xff\r\nBODY {\"workflow\":\"howera\"}",
        b"POST /jobs HTTP/1.1\r\nContent-Encoding: \xff\r\nBODY {\"workflow\":\"howera\"}",
        (b"POST /internal/JOB/status HTTP/1.1\r\nX-Event-Id: \xff\r\n"
        b'BODY {"status":"UPLOADING","occurred_at":"2026-01-01T00:00:00Z"}'),
        (b"POST /internal/JOB/status HTTP/1.1\r\n"
        b'BODY {"event_id":"\\u0000","status":"UPLOADING","occurred_at":"0001-01-01T00:00:00Z"}'),
        (b"POST /JOB/transitions HTTP/1.1\r\n"
        b'BODY {"to":"UPLOADING","reason":"\\u0000","artifact_updates":{"a":"\\u0000"}}'),
        b"POST /admin/credits/\xff/grant HTTP/1.1\r\nBODY {\"amount\":1,\"reason\":\"x\"}",
        b"BREW /jobs HTTP/1.1\r\n",
    ],
)  # fmt: skip
async def test_bytes_that_are_no_text_are_never_our_fault(house: House, head: bytes) -> None:
    job = await house.admin.submit("howera")
    head, _, body = head.partition(b"BODY ")
    head = head.replace(b"JOB", b"jobs/" + job["id"].encode())
    if b"Authorization" not in head:
        head += b"Authorization: Bearer " + (house.admin.token or "").encode() + b"\r\n"
    head += b"Host: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    answered = await raw(house, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert re.match(rb"HTTP/1.[01] [234]\d\d", answered), answered[:600]
