"""A fuzzer that knows nothing but the published document: no 5xx, nothing undocumented.

One of its checks is left out: that whatever fits a schema is accepted. A job that ended takes no
command, however well it is worded, and a cursor is one of ours or none.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest

from tests.http.serving import House

pytestmark = [pytest.mark.anyio, pytest.mark.long]

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,response_headers_conformance,unsupported_method,ignored_auth,"
    "missing_required_header,negative_data_rejection"
)
LESS = CHECKS.replace(",negative_data_rejection", "")
# These hold their answer back as long as they were asked to, and the phase that goes through all
# bounds of the schemas asks for the longest.
WAITING = (
    "followJob",
    "followJobs",
    "followOverview",
    "claimWork",
    "getJob",
    "createJob",
    "getBackup",
)
EXAMPLES = 14
# Whoever does not say which tus it speaks is answered 412, as that protocol wants it, whatever else
# is wrong. The others are what the tool expects by itself.
REFUSING = "400 401 403 404 405 406 409 412 415 422 428 429 5xx".split()
CONFIG = f"""
[checks]
missing_required_header.expected-statuses = {REFUSING}
negative_data_rejection.expected-statuses = {REFUSING}
"""
# Who asks, and with which seed: five times some 1,200 requests of an admin.
ROUNDS = [*(("admin", seed) for seed in range(1, 6)), ("ada", 1), ("worker", 1)]
HOOKS = """
import schemathesis

@schemathesis.serializer("application/offset+octet-stream")
def piece(context, value):
    return value if isinstance(value, bytes) else str(value).encode()

@schemathesis.deserializer("text/event-stream")
def as_text(context, response):
    return response.content.decode()  # a stream is text to the document

@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and "id" in path_parameters and len(path_parameters["id"]) % 4:
        path_parameters["id"] = {ids!r}[len(path_parameters["id"]) % {count}]
    return path_parameters

@schemathesis.hook
def map_query(context, query):
    if context.operation.path.endswith("/events"):
        return {{**(query or {{}}), "wait": 0.01}}
    return hurried(query)

@schemathesis.hook
def map_body(context, body):
    return hurried(body)

def hurried(said):
    if isinstance(said, dict) and isinstance(said.get("wait"), (int, float)):
        said["wait"] = min(said["wait"], 0.01)
    return said
"""


@pytest.mark.parametrize(("role", "seed"), ROUNDS)
async def test_whatever_a_client_sends(house: House, role: str, seed: int, tmp_path: Path) -> None:
    how = ("--phases", "examples,fuzzing", "--max-examples", str(EXAMPLES), "--seed", str(seed))
    await _fuzzed(house, role, tmp_path, *how)


async def test_whatever_lies_at_a_bound(house: House, tmp_path: Path) -> None:
    """An array with an item too many may be a body too large: 413, which the check of refusals
    does not know for one."""
    but = [word for name in WAITING for word in ("--exclude-operation-id", name)]
    await _fuzzed(
        house, "admin", tmp_path, "--phases", "coverage", "--seed", "1", *but, checks=LESS
    )


async def _fuzzed(house: House, role: str, tmp_path: Path, *how: str, checks: str = CHECKS) -> None:
    await house.admin.post("/admin/credits/ada/grant", {"amount": 100_000, "reason": "fuzzing"})
    ids = [
        (await house.ada.submit("howera"))["id"],
        (await house.ada.submit("ss", params={"plan_revision": tmp_path.name}))["id"],
        (await house.ada.submit("cutx", params={"product_id": "p"}))["id"],
        (await house.ada.submit("cutx", job_type="tts", params={"text": "t"}))["id"],
    ]
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    (tmp_path / "hooks.py").write_text(HOOKS.format(ids=ids, count=len(ids)))
    caller = house.admin if role == "admin" else house.callers[role]
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{house.service.url}/openapi.json",
        *("-H", f"Authorization: Bearer {caller.token}"),
        *("--checks", checks),
        *("--exclude-operation-id", "revokeToken"),
        # Any folder of the machine that tests this may be one for backups.
        *("--exclude-operation-id", "makeBackup"),
        *how,
        *("--request-timeout", "65"),
        stdout=PIPE,
        stderr=STDOUT,
        cwd=tmp_path,
        env={"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(tmp_path), "PATH": ""},
    )
    told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()[-6000:]
