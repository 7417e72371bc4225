"""From an uploaded video to an instruction that people edit, renew in parts and export.

The lifecycle is a table in ``workflow``; ``commands`` says what a person's words mean, ``video``
guards the one input everything is made of, and ``params`` are the shapes of what may be said.

1. Three stages run one after another under one lock: audio, transcript, draft. Each leaves an
   artifact behind, and each artifact is a place to start from again.
2. An orchestrator outside may do all of it by callbacks, or nothing. Whoever began a run owns it;
   nobody else starts a second one beside it.
3. The editor is a place to come back to. A regenerate or an export that fails leads there, with
   what went wrong kept in its attempt; only the pipeline can fail the job.
4. A video is said once. The same address again is the same answer, in any state; another one is a
   conflict, at whichever door it is said.

Absent on purpose: a way back from ``FAILED``, an export from a finished job, and money.
"""

from jobrunner import Definition, Panel
from jobrunner_howera.commands import (
    all_exported,
    begin_export,
    begin_regenerate,
    known_export,
    known_regenerate,
    known_run,
    read_correction,
    renew_draft,
    still_based,
)
from jobrunner_howera.params import ConfirmUpload, Export, Fail, Nothing, Regenerate
from jobrunner_howera.settings import Settings
from jobrunner_howera.video import (
    known_video,
    record_video,
    sound,
    video_kept,
    video_recorded,
    video_wanted,
)
from jobrunner_howera.workflow import WORKFLOW

__all__ = ["definition", "panel"]

definition = Definition(
    WORKFLOW,
    functions={
        "all_exported": all_exported,
        "begin_export": begin_export,
        "begin_regenerate": begin_regenerate,
        "known_export": known_export,
        "known_regenerate": known_regenerate,
        "known_run": known_run,
        "known_video": known_video,
        "read_correction": read_correction,
        "record_video": record_video,
        "renew_draft": renew_draft,
        "sound": sound,
        "still_based": still_based,
        "video_kept": video_kept,
        "video_recorded": video_recorded,
        "video_wanted": video_wanted,
    },
    structs={
        "nothing": Nothing,
        "confirm_upload": ConfirmUpload,
        "regenerate": Regenerate,
        "export": Export,
        "fail": Fail,
    },
    settings=Settings,
)

panel = Panel("howera", __name__, title="The instruction")
