"""The lifecycles of this tree, in the service and on two processes of ``jobrunner work``: they come
to the same end in the same way, with the same files and money."""

from pathlib import Path

import pytest

from tests.work.lifecycles import LIFECYCLES, Elsewhere, are_alike, shown

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.mark.parametrize("workflow", LIFECYCLES)
async def test_it_is_made_elsewhere_as_it_is_made_here(tmp_path: Path, workflow: str) -> None:
    here = await shown(tmp_path / "here", workflow)
    there = await shown(tmp_path / "there", workflow, Elsewhere(2))
    are_alike(here, there)
