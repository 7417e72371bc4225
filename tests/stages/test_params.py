"""Stored parameters, read by a plugin that may have changed since they were sent."""

from pathlib import Path

import pytest
from msgspec import Struct

from jobrunner.core.declaration.params import Stale, decoded
from jobrunner.core.job import Actor
from jobrunner.core.messages import Submit
from tests.stages.house import attempts, serving, until

pytestmark = pytest.mark.anyio


JOB = "01a1ee87-0000-7000-8000-000000000001"


class Order(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    count: int = 1


def test_params_are_read_leniently() -> None:
    assert decoded({"name": "x", "count": "3"}, Order) == Order("x", 3)
    assert decoded({"name": "x", "gone": True}, Order) == Order("x")


@pytest.mark.parametrize("given", [{}, {"name": 7}, {"name": "x", "count": "many"}, None, []])
def test_params_that_fit_no_more(given: object) -> None:
    with pytest.raises(Stale, match="no longer fit Order"):
        decoded(given, Order)


async def test_a_job_whose_params_are_stale_is_put_aside(tmp_path: Path) -> None:
    """No attempt is spent on it; it says why, and waits for an operator."""
    async with serving(tmp_path) as here:
        asked = Submit(Actor("ada", "user"), "stage", "any", {"does": 7}, JOB)
        await here.service.facade.submit(asked)
        await until(lambda: bool(here.lines(JOB, "job.put_aside")))
        job = (await here.admin.get(f"/jobs/{JOB}")).json
        assert job["status"] == "queued"
        assert job["stuck"]["reason"].startswith(
            "PARAMS_STALE: the parameters no longer fit Params"
        )
        assert await attempts(here, JOB) == []
