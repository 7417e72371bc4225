"""What the studio's bench, and what it starts, see of the service's environment."""

import asyncio
import os
from pathlib import Path

import pytest
from jobrunner_cutx.studio import desk
from jobrunner_cutx.studio.orders import Order

pytestmark = pytest.mark.anyio

DUMP = """#!/bin/sh
env > {kept}
tr '\\0' '\\n' < /proc/$PPID/environ >> {kept}
exit 1
"""


async def test_neither_the_bench_nor_what_it_starts_sees_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice, kept = tmp_path / "bin" / "flite", tmp_path / "seen"
    voice.parent.mkdir()
    voice.write_text(DUMP.format(kept=kept))
    voice.chmod(0o755)
    monkeypatch.setenv("PATH", f"{voice.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("STUDIO_KEY", "a-providers-key")
    (tmp_path / "orders").mkdir()
    place = str(tmp_path / "orders" / "output")
    one = Order("a" * 26, {"type": "tts", "text": "Hello."}, "", "", 1.0)
    await desk._worked(place, one, asyncio.Event())
    seen = kept.read_text()
    assert seen.count("PATH=") >= 2
    assert "a-providers-key" not in seen
