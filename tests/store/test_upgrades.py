"""Jobs under way are found by indexes alone: whatever state a job is in, one of them has it."""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobrunner.core.job import Snapshot
from jobrunner.store.features.upgrades.upgrades import under_way
from jobrunner.store.rows import claim_at
from tests.core.explore import births_of, explore
from tests.core.test_rebinding import PLAIN
from tests.core.test_totality import PARAMS
from tests.driving import bound, outside

KEPT = Path(__file__).parents[1] / "golden" / "kept" / "jobs.db.gz"
SCAN = """
    SELECT d.name, d.version, d.digest, j.status, j.job_type, count(*)
    FROM jobs j JOIN definitions d ON d.id = j.definition
    WHERE j.kind IN ('waiting', 'queued', 'active')
    GROUP BY d.id, j.status, j.job_type ORDER BY d.name, d.id, j.status, j.job_type
"""


def in_an_index(job: Snapshot) -> bool:
    attempt = job.attempt
    works = attempt is not None and attempt.status in ("running", "parked")
    waits = job.kind == "waiting" or job.line_at is not None or claim_at(job) is not None
    return bool(waits or works or job.timers or job.stuck or job.paused)


@pytest.mark.parametrize("house", [True, False], ids=["in the house", "outside"])
@pytest.mark.parametrize("name", PLAIN)
def test_every_job_that_has_not_ended_is_in_an_index(name: str, house: bool) -> None:
    definition = (bound if house else outside)(PLAIN[name])
    for job in explore(definition, births_of(definition, PARAMS), 100, lambda *_: None):
        assert job.ended or in_an_index(job), job


def test_a_job_in_every_state_is_counted(tmp_path: Path) -> None:
    """The same as if all jobs were looked at."""
    path = tmp_path / "jobs.db"
    path.write_bytes(gzip.decompress(KEPT.read_bytes()))
    with closing(sqlite3.connect(path)) as db:
        scanned = db.execute(SCAN).fetchall()
        assert len(scanned) > 20
        found = under_way(db)
        assert [(*(getattr(one, name) for name in one.__struct_fields__),) for one in found] == (
            scanned
        )
