"""The video, which is said once, and the inputs of the stages that follow from it."""

from jobrunner import Act, Ask, Refused, Replay, Report


def known_video(ask: Ask) -> Replay | Refused | None:
    """``confirm-upload``, recognised: the address that is recorded, said again in any state."""
    recorded = ask.snapshot.value("video_uri")
    if not recorded:
        return None
    submitted = _submitted(ask) or recorded
    return Replay() if submitted == recorded else _conflict(recorded, submitted)


def record_video(ask: Ask) -> Act | Refused:
    """``confirm-upload``, carried out."""
    if submitted := _submitted(ask):
        return Act(report=Report(artifacts={"video_uri": submitted}))
    return _unnamed("say video_uri, or upload the file first")


def video_wanted(ask: Ask) -> Refused | None:
    """Guard: a file may be sent for as long as no video is recorded; it would not be looked at."""
    recorded = ask.snapshot.value("video_uri")
    return _conflict(recorded, None) if recorded else None


def video_kept(ask: Ask) -> Refused | None:
    """Guard: a report may name the video, but not another one than is recorded."""
    submitted = ask.report.artifacts.get("video_uri")
    recorded = ask.before.value("video_uri") if ask.before else None
    if submitted is None or not recorded or submitted == recorded:
        return None
    return _conflict(recorded, submitted)


def video_recorded(ask: Ask, code: str, status: int) -> Refused | None:
    """Guard: there is a video to work on. Only its own threshold asks; a run that resumes further
    on has left the video behind."""
    if ask.snapshot.status not in ("CREATED", "UPLOADING", "UPLOADED"):
        return None
    video = ask.snapshot.value("video_uri")
    if isinstance(video, str) and video.strip():
        return None
    return Refused(code, "no video is recorded; send confirm-upload with video_uri", status=status)


def sound(ask: Ask, artifact: str) -> Refused | None:
    """Guard: what the next stage works on is there and as recorded. Where that stage is outside, so
    is its input, and whoever runs it answers for both."""
    job = ask.snapshot
    if not ask.definition.in_house(ask.target, job.job_type):
        return None
    found = job.artifacts.get(artifact)
    whole = set(ask.facts.verified)
    if ask.actor.role == "stage":
        whole |= {asset.id for asset in ask.report.assets}
    if found is not None and found.asset in whole:
        return None
    return Refused("CORRUPT_INPUT", f"{artifact} is missing or is not what was recorded")


def _submitted(ask: Ask) -> str | None:
    named: str | None = ask.fields.get("video_uri")
    return named or ask.snapshot.marks.get("uploaded_url")


def _unnamed(cure: str) -> Refused:
    path = {"path": "$.video_uri", "message": "missing"}
    return Refused("VALIDATION_ERROR", f"there is no video yet; {cure}", errors=[path])


def _conflict(recorded: object, submitted: object) -> Refused:
    return Refused(
        "VIDEO_URI_CONFLICT",
        "this job has another video; make a new job for a new video",
        current_video_uri=recorded,
        submitted_video_uri=submitted,
    )
