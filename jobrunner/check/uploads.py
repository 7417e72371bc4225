"""Checks that a declared upload can be meant: a file that begins somewhere can also end there, and
what it is to become has a name."""

import re
from collections.abc import Iterator

from jobrunner.check.faults import Fault
from jobrunner.check.ways import Chart
from jobrunner.core.declaration.spelling import ARTIFACT
from jobrunner.core.declaration.workflow import Upload

NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/(\*|[a-z0-9][a-z0-9.+-]*)")


def unfit(chart: Chart, upload: Upload) -> Iterator[Fault]:
    place = f"upload {upload.name}"
    for problem in _problems(upload):
        yield Fault("upload", f"{place} {problem}", (place, f"here: it {problem.split(';')[0]}"))
    for status, path in upload.begins.items():
        end = path[-1] if path else status
        if end not in upload.walks:
            yield Fault(
                "upload",
                f"{place} begins in {status} and then stands in {end}, where the whole file is not "
                f"taken; name {end} in walks",
                chart.trace(status, f"here: a file begins in {end} that can never be stored"),
            )


def _problems(upload: Upload) -> Iterator[str]:
    if not NAME.fullmatch(upload.name):
        yield "has a name that cannot stand in an address; use lower case letters, digits, '-'"
    if not upload.walks:
        yield "is taken in no state; name one in walks"
    if not ARTIFACT.fullmatch(upload.asset_type):
        yield f"has the asset type {upload.asset_type!r}; use lower case letters, digits, '_'"
    for artifact in (upload.artifact, upload.fingerprint):
        if artifact and not ARTIFACT.fullmatch(artifact):
            yield f"names the artifact {artifact!r}; use lower case letters, digits, '_'"
    if upload.artifact and upload.artifact == upload.fingerprint:
        yield "stores its address and its digest in one artifact; name two"
    for media_type in upload.types:
        if not MEDIA_TYPE.fullmatch(media_type):
            yield f"takes the type {media_type!r}; a media type reads like video/mp4 or video/*"
    if upload.max_bytes < 0:
        yield "has a size limit below 0; 0 leaves it to the service"
