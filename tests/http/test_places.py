"""A submission that takes its predecessor's place, where there is room for one."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from jobrunner.config.settings import QuotaSettings
from tests.http.serving import OUTSIDE, definitions, opened

pytestmark = pytest.mark.anyio

PROMPT = {"prompt": "a lighthouse at dusk"}


async def test_at_the_limit_a_repeat_takes_the_place_of_the_job_before(tmp_path: Path) -> None:
    """I15 I17: counted in the transaction too, after the predecessor has ended in it."""
    settings = replace(OUTSIDE, quota=QuotaSettings(open_jobs=1, per_minute=0))
    registry = definitions(settings, names=("image_generation",))
    async with opened(tmp_path, registry=registry) as house:
        key = {"idempotency_key": "k", "params": PROMPT}
        first = await house.ada.submit("image-generation", **key)
        path = f"/jobs/{first['id']}"
        other = {"workflow": "image-generation", "params": {"prompt": "another"}}
        assert (await house.ada.post("/jobs", other)).code == "QUOTA_EXCEEDED"
        await house.worker.post(f"{path}/claim")
        report = {"to": "failed", "failure_message": "gone"}
        assert (await house.worker.post(f"{path}/transitions", report)).status == 200
        said = await house.ada.post("/jobs", {"workflow": "image-generation", **key})
        assert (said.status, said.json["replayed"]) == (201, False)
        assert said.json["id"] != first["id"]
        assert (await house.ada.get(path)).json["status"] == "dead_letter"
        assert (await house.ada.post("/jobs", other)).code == "QUOTA_EXCEEDED"
