"""What the published document allows is taken: requests are made from its schemas, and none of them
is called malformed. What a schema cannot say stands in ``SAID_IN_WORDS``, and nothing else does."""

import asyncio
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.http.planned import Questions, overheard
from tests.http.serving import House, definitions, opened

pytestmark = pytest.mark.anyio

EXAMPLES = 10
# Whatever else may befall a request that is well-formed: no such job, not now, not by you.
BEFALLS = (
    '"2xx", "304", "401", "402", "403", "404", "405", "406", "408", "409", "410", "411", "412",'
    '"413", "415", "416", "429", "460", "503"'
)
# These hold their answer back: a stream until somebody hangs up, an order of copy until it is done.
WAITING = ("followJob", "followJobs", "followOverview", "claimWork", "apiGenerateCopy")
SAID_IN_WORDS = """
import schemathesis

IDS = {ids!r}
TWINS = (
    ("If-Match", "expected_version"),
    ("Idempotency-Key", "idempotency_key"),
    ("Idempotency-Key", "idempotencyKey"),
    ("Idempotency-Key", "key"),
    ("X-Event-Id", "event_id"),
)

@schemathesis.serializer("application/offset+octet-stream")
def piece(context, value):
    return value if isinstance(value, bytes) else str(value).encode()

@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and "id" in path_parameters and len(path_parameters["id"]) % 4:
        path_parameters["id"] = IDS[len(path_parameters["id"]) % len(IDS)]
    return path_parameters

@schemathesis.hook
def map_query(context, query):
    query = dict(query or {{}})
    if "cursor" in query:
        query.pop("offset", None)  # two ways to say where a page begins
    if "wait" in query:
        query["wait"] = 0
    return query

@schemathesis.hook
def map_headers(context, headers):
    for name in ("Content-Digest", "X-Content-SHA256"):
        (headers or {{}}).pop(name, None)  # they must fit the file that is sent
    if "Upload-Metadata" in (headers or {{}}):
        headers["Upload-Metadata"] = "filename YS5jc3Y="  # each name once, each value UTF-8
    return headers

def clipped(value):
    # within what may be anything there are no larger whole numbers either
    if isinstance(value, dict):
        return {{name: clipped(inner) for name, inner in value.items()}}
    if isinstance(value, list):
        return [clipped(inner) for inner in value]
    large = isinstance(value, int) and abs(value) > 2**53
    return 7 if large else value

@schemathesis.hook
def map_case(context, case):
    body = case.body = clipped(case.body) if isinstance(case.body, dict) else case.body
    body = body if isinstance(body, dict) else {{}}
    for header, field in TWINS:  # two places for one thing: they agree, or one of them is left out
        if body.get(field) is not None:
            case.headers.pop(header, None)
    label = case.operation.label
    if label.endswith("/status"):
        body.pop("job_id", None)  # once more what the path says
        body["occurred_at"] = "2020-01-01T00:00:00Z"  # not ahead of the clock
        if body.get("event_id") is None and "X-Event-Id" not in case.headers:
            body["event_id"] = "an event"  # in one of two places
    if isinstance(body.get("notify_url"), str):
        body["notify_url"] = "https://a.example/"  # where it may lead, the operator says
    if isinstance(body.get("from"), str):
        body["from"] = "pending"  # where a job of this kind can begin again
    for field in ("status", "target_status", "to"):  # a state of the job's own workflow
        if isinstance(body.get(field), str) and not label.endswith("/bulk"):
            body[field] = "completed"
    if body.get("expires_at") is not None:
        body["expires_at"] = "2999-01-01T00:00:00Z"  # not over already
    return case
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Questions]:
    with overheard(monkeypatch, tmp_path / "data" / "jobs.db") as questions:
        yield questions


@pytest.fixture
async def house(asked: Questions, tmp_path: Path, anyio_backend: str) -> AsyncIterator[House]:
    async with opened(tmp_path / "data", registry=definitions()) as house:
        yield house


async def allowed(house: House, folder: Path, *how: str, befalls: str, examples: int) -> None:
    """Every one of them is answered by a status that may befall it."""
    await house.admin.post("/admin/credits/admin/grant", {"amount": 10**6, "reason": "test"})
    ids = [
        (await house.admin.submit("cutx", params={"product_id": f"p-{number}"}))["id"]
        for number in range(3)
    ]
    (folder / "words.py").write_text(SAID_IN_WORDS.format(ids=ids))
    (folder / "schemathesis.toml").write_text(
        f"[checks]\npositive_data_acceptance.expected-statuses = [{befalls}]\n"
    )
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{house.service.url}/openapi.json",
        *("-H", f"Authorization: Bearer {house.admin.token}"),
        *("--checks", "positive_data_acceptance", "--mode", "positive"),
        *("--phases", "examples,fuzzing", "--max-examples", str(examples)),
        *how,
        stdout=PIPE,
        stderr=STDOUT,
        cwd=folder,
        env={"SCHEMATHESIS_HOOKS": "words", "PYTHONPATH": str(folder), "PATH": ""},
    )
    told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()[-6000:]


def everywhere(seed: int) -> list[str]:
    """But not where a backup is made, which may be any folder of the machine that tests this."""
    names = (*WAITING, "revokeToken", "makeBackup")
    but = [word for name in names for word in ("--exclude-operation-id", name)]
    return ["--seed", str(seed), *but]


async def test_what_fits_the_schemas_is_not_malformed(
    house: House, asked: Questions, tmp_path: Path
) -> None:
    """422 is not about form here: which params a job takes depends on its workflow. And of all that
    the file was asked for this nothing takes the longer the more jobs have ended."""
    befalls = f'{BEFALLS}, "422"'
    await allowed(house, tmp_path, *everywhere(1), befalls=befalls, examples=EXAMPLES)
    assert len(asked) > 100
    assert asked.walks(tmp_path / "data" / "jobs.db") == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 7))
async def test_whatever_fits_the_schemas(house: House, tmp_path: Path, seed: int) -> None:
    befalls = f'{BEFALLS}, "422"'
    await allowed(house, tmp_path, *everywhere(seed), befalls=befalls, examples=20)


async def test_the_doors_of_one_workflow_say_all_that_an_order_needs(
    house: House, tmp_path: Path
) -> None:
    """There the params are the body, so 422 would be about form as well."""
    how = ("--include-path-regex", "^/api/generate/[sv]", "--seed", "1")
    await allowed(house, tmp_path, *how, befalls=BEFALLS, examples=15)
