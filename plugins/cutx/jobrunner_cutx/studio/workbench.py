"""One order, made: ``python -m jobrunner_cutx.studio.workbench PLACE``, with the order as the first
line of stdin. It says on stdout which file it made; what it cannot make, it says on stderr and ends
with 1. When stdin ends before, nobody wants it any more: it ends, with all that it started. So it
is the leader of a process group of its own."""

import json
import os
import signal
import sys
import threading
from typing import Any

from jobrunner_cutx.studio import drawing, filming, speaking

MAKERS = {
    "static_ad": (drawing.advertisement, "png"),
    "ugc_video": (filming.film, "mp4"),
    "tts": (speaking.speech, "wav"),
}


def main() -> int:
    place = sys.argv[1]
    given: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_when_unwanted, daemon=True).start()
    maker = MAKERS.get(str(given.get("type")))
    if maker is None:
        sys.stderr.write(f"nothing is made of type {given.get('type')!r} here\n")
        return 1
    make, ending = maker
    try:
        make(given, f"{place}.{ending}")
    except speaking.NoVoice as error:
        sys.stderr.write(f"{error}\n")
        return 1
    json.dump({"output": f"{os.path.basename(place)}.{ending}"}, sys.stdout)
    return 0


def _end_when_unwanted() -> None:
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
