"""The outsides are what they were, but for what was changed on purpose: then
``python -m tests.golden`` writes them anew, and their change says what others will see."""

from pathlib import Path

import pytest

from tests.golden.__main__ import KEPT
from tests.golden.living import goes_on, standing, then, unpack
from tests.golden.outsides import OUTSIDES
from tests.http.serving import opened
from tests.standing import LIFECYCLES
from tests.whole.placing import outside


@pytest.mark.parametrize("name", OUTSIDES)
def test_an_outside_is_what_it_was(name: str) -> None:
    assert OUTSIDES[name]() == (KEPT / name).read_text(encoding="utf-8")


def test_nothing_is_kept_that_nobody_looks_at() -> None:
    assert {file.name for file in KEPT.glob("*.txt")} | {"schema.sql"} == set(OUTSIDES)


@pytest.mark.anyio
async def test_a_job_in_every_state_goes_on_under_a_newer_program(tmp_path: Path) -> None:
    """The file holds a job in each of the forty states; those that had a way on have it still."""
    unpack(KEPT, tmp_path)
    async with opened(tmp_path, registry=outside(), ports=then(tmp_path)) as house:
        jobs = await standing(house)
        assert set(jobs) == {
            (name, state) for name, one in LIFECYCLES.items() for state in one.steps
        }
        for job in jobs.values():
            said = await goes_on(house, job)
            assert said is None or said.status == 200, (job["workflow"], job["status"], said.raw)
            if said is None:
                assert job["kind"] == "final"
        assert (await house.admin.post("/admin/db/check")).json == {"ok": True, "faults": []}
