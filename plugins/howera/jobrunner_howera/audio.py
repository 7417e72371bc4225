"""The stage ``howera.audio``: the sound of the video, as recognisers want it."""

import os

from jobrunner import Done, PermanentFailure, PlainContext, stage
from jobrunner_howera import film

FILMS = (
    "video/mp4", "video/webm", "video/quicktime", "video/x-matroska", "video/x-msvideo",
    "video/mpeg", "video/ogg", "audio/mpeg", "audio/wav", "audio/ogg", "audio/flac", "audio/mp4",
    "application/octet-stream",
)  # fmt: skip
MIB = 1024 * 1024


@stage("howera.audio", memory=8192 * MIB, file_size=8192 * MIB)
def extract(ctx: PlainContext) -> Done:
    path = video_of(ctx)
    ctx.progress(2, "looking into the video")
    known = film.looked_into(path)
    if not known.sound:
        text = "the video has no sound, so there is nothing to write down: upload one with speech"
        raise PermanentFailure("VIDEO_SILENT", text)
    into = os.path.join(ctx.scratch, "audio.flac")
    damage = film.sound_of(path, into, known.seconds, lambda part: ctx.progress(2 + int(part * 95)))
    if damage:
        ctx.log(damage)
    heard = film.looked_into(into).seconds
    if not heard:
        raise PermanentFailure("VIDEO_UNREADABLE", "the video ends before any sound does")
    ctx.save("audio.flac", into, asset_type="audio", artifact="audio_uri")
    return Done(artifacts={"metrics": {"video_seconds": round(known.seconds or heard, 2)}})


def video_of(ctx: PlainContext) -> str:
    """The video as a local file: an upload of the owner's, or a guarded download."""
    address = str(ctx.artifacts.get("video_uri") or "")
    if address.startswith("/assets/"):
        return ctx.asset(address).path
    if address.startswith(("https://", "http://")):
        return ctx.download(address, "video", types=FILMS).path
    scheme = address.partition(":")[0][:20]
    text = (
        f"a built-in stage opens uploaded files and https addresses, not {scheme!r}: upload "
        'the video, or bind the stage to "external"'
    )
    raise PermanentFailure("VIDEO_UNREACHABLE", text)
