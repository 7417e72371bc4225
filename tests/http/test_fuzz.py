"""A fuzzer that knows nothing but the published document: no 5xx, nothing undocumented.

Two of its checks are left out, because they guess where we decide: that whatever fits a schema is
accepted (a job that ended takes no command, however well it is worded), and that what does not is
refused with a status of its own list. The other tests say both, case by case.
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
    "missing_required_header,use_after_free,ensure_resource_availability"
)
EXAMPLES = {"admin": 70, "ada": 10, "worker": 10}
HOOKS = """
import schemathesis

@schemathesis.serializer("application/offset+octet-stream")
def piece(context, value):
    return value if isinstance(value, bytes) else str(value).encode()

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


@pytest.mark.parametrize("role", ["admin", "ada", "worker"])
async def test_whatever_a_client_sends(house: House, role: str, tmp_path: Path) -> None:
    await house.admin.post("/admin/credits/ada/grant", {"amount": 100_000, "reason": "fuzzing"})
    ids = [
        (await house.ada.submit("howera"))["id"],
        (await house.ada.submit("ss", params={"plan_revision": role}))["id"],
        (await house.ada.submit("cutx", params={"product_id": "p"}))["id"],
        (await house.ada.submit("cutx", job_type="tts", params={"text": "t"}))["id"],
    ]
    (tmp_path / "hooks.py").write_text(HOOKS.format(ids=ids, count=len(ids)))
    caller = house.admin if role == "admin" else house.callers[role]
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{house.service.url}/openapi.json",
        *("-H", f"Authorization: Bearer {caller.token}"),
        *("--checks", CHECKS),
        *("--phases", "examples,fuzzing"),
        *("--exclude-operation-id", "revokeToken"),
        *("--max-examples", str(EXAMPLES[role])),
        *("--seed", "1"),
        *("--request-timeout", "65"),
        stdout=PIPE,
        stderr=STDOUT,
        cwd=tmp_path,
        env={"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(tmp_path), "PATH": ""},
    )
    told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()[-6000:]
