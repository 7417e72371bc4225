"""The entries of the table that have to do with files."""

from typing import Any

from jobrunner.http import views, wire
from jobrunner.http.frame.endpoint import ANYBODY, MOVING, OWNERS, WORKERS, Endpoint
from jobrunner.http.routes.files import content, resumable, uploads

FILE: dict[str, Any] = {"roles": OWNERS, "streams": "application/octet-stream"}
PIECE: dict[str, Any] = {"roles": OWNERS, "streams": resumable.PIECE}
ARRIVING = ("UPLOAD_IN_PROGRESS", "DIGEST_MISMATCH", "UNKNOWN_UPLOAD")
RESUMING = ("UPLOAD_IN_PROGRESS", "TUS_VERSION_UNSUPPORTED")
PIECEWISE = ("UPLOAD_OFFSET_MISMATCH", "CHECKSUM_MISMATCH")
TAKING = (*RESUMING, *PIECEWISE, "UNKNOWN_UPLOAD", "ALREADY_EXISTS")

ENDPOINTS = (
    Endpoint(
        method="PUT",
        path="/jobs/{id}/upload",
        name="uploadFile",
        handler=uploads.upload,
        summary="Send a file for a job in one request; its body is the file",
        answers={200: views.Job},
        query=wire.UploadQuery,
        codes=(*MOVING, *ARRIVING),
        declared=True,
        **FILE,
    ),
    Endpoint(
        method="POST",
        path="/jobs/{id}/assets",
        name="sendAsset",
        handler=uploads.send,
        summary="A worker sends a file for the attempt that it works on; its body is the file",
        answers={201: views.AssetEntry},
        query=wire.SendQuery,
        roles=WORKERS,
        streams="application/octet-stream",
        codes=(*MOVING, "DIGEST_MISMATCH", "QUOTA_EXCEEDED"),
        declared=True,
    ),
    Endpoint(
        method="POST",
        path="/jobs/{id}/uploads",
        name="createJobUpload",
        handler=resumable.create_for_job,
        summary="Announce a file for a job, to be sent in pieces (tus 1.0.0)",
        answers={201: None},
        codes=(*MOVING, *TAKING, "QUOTA_EXCEEDED"),
        declared=True,
        **PIECE,
    ),
    Endpoint(
        method="POST",
        path="/uploads",
        name="createUpload",
        handler=resumable.create,
        summary="The same for a file before its job; with job_id, for the attempt of a worker",
        answers={201: None},
        query=wire.AnnounceQuery,
        roles=ANYBODY,
        streams=resumable.PIECE,
        codes=(*MOVING, *TAKING, "QUOTA_EXCEEDED"),
        declared=True,
    ),
    Endpoint(
        method="OPTIONS",
        path="/uploads",
        name="getUploadOptions",
        handler=resumable.options,
        summary="What the resumable uploads can do",
        answers={204: None},
        roles=None,
    ),
    Endpoint(
        method="GET",
        path="/uploads/{id}",
        name="getUpload",
        handler=resumable.show,
        summary="How far an upload has come; the same in headers, for HEAD",
        answers={200: views.UploadView},
        codes=(*MOVING, *TAKING, "STORAGE_FULL", "OUTCOME_UNKNOWN", "OVERLOADED"),
        declared=True,
    ),
    Endpoint(
        method="PATCH",
        path="/uploads/{id}",
        name="continueUpload",
        handler=resumable.append,
        summary="The next piece; with the last one it becomes an asset",
        answers={204: None},
        codes=(*MOVING, *TAKING),
        declared=True,
        streams=resumable.PIECE,
    ),
    Endpoint(
        method="DELETE",
        path="/uploads/{id}",
        name="endUpload",
        handler=resumable.end,
        summary="Give up an upload",
        answers={204: None},
        codes=RESUMING,
    ),
    Endpoint(
        method="POST",
        path="/assets",
        name="createAsset",
        handler=uploads.shelve,
        summary="Send a file before its job; its body is the file",
        answers={201: views.AssetEntry},
        query=wire.ShelfQuery,
        codes=("DIGEST_MISMATCH", "ALREADY_EXISTS"),
        **FILE,
    ),
    Endpoint(
        method="GET",
        path="/assets/{id}/content",
        name="getAssetContent",
        handler=content.content,
        summary="The file, or a range of it",
        answers={200: content.ANY_TYPE, 206: content.ANY_TYPE, 304: None},
        codes=("ASSET_GONE", "RANGE_NOT_SATISFIABLE"),
        media=content.KINDS,
    ),
    Endpoint(
        method="DELETE",
        path="/assets/{id}",
        name="deleteAsset",
        handler=content.discard,
        summary="Delete a file that is no job's",
        answers={204: None},
        roles=OWNERS,
        codes=("ASSET_ATTACHED",),
    ),
)
