"""Who goes first when the memory is used up."""

import json
import sys
from pathlib import Path

import anyio
import pytest

from jobrunner.stages.process import launcher
from tests.stages.house import over, serving, submitted

pytestmark = pytest.mark.anyio


async def test_a_stages_process_offers_itself_to_the_kernel() -> None:
    """R15: not the service, which has all the others to look after."""
    program = (
        "import runpy, json\n"
        f"names = runpy.run_path({launcher.__file__!r})\n"
        "names['_offer_to_the_kernel']()\n"
        "print(json.dumps(int(open('/proc/self/oom_score_adj').read())))\n"
    )
    said = await anyio.run_process([sys.executable, "-c", program])
    assert json.loads(said.stdout) == launcher.FIRST_TO_GO
    assert int(Path("/proc/self/oom_score_adj").read_text()) < launcher.FIRST_TO_GO


async def test_each_stage_is_offered_before_it_begins(tmp_path: Path) -> None:
    async with serving(tmp_path) as here:
        job = await over(here, await submitted(here, "offered"))
    assert job["result"] == {"first_to_go": launcher.FIRST_TO_GO}
