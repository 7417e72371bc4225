"""Who goes first when the memory is used up."""

import json
import subprocess
import sys
from pathlib import Path

from jobrunner.stages.process import launcher


def test_a_stages_process_offers_itself_to_the_kernel() -> None:
    """R15: not the service, which has all the others to look after."""
    program = (
        "import runpy, json\n"
        f"names = runpy.run_path({launcher.__file__!r})\n"
        "names['_offer_to_the_kernel']()\n"
        "print(json.dumps(int(open('/proc/self/oom_score_adj').read())))\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert json.loads(said.stdout) == launcher.FIRST_TO_GO
    assert int(Path("/proc/self/oom_score_adj").read_text()) < launcher.FIRST_TO_GO
    text = Path(launcher.__file__).read_text()
    assert text.count("_offer_to_the_kernel()") == 2, "each stage does, before it begins"
