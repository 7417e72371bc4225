"""Which headers a request may bring and which ones an answer has, for the document."""

from collections.abc import Iterable
from typing import Any

from jobrunner.http.frame.endpoint import Endpoint
from jobrunner.http.frame.views import Job

TEXT = {"type": "string"}
BASE64 = "[A-Za-z0-9+/]+={0,2}"
# What of them can be read at all; the others may say anything.
FORMS = {
    "Content-Digest": "^sha-256=:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=:$",
    "Idempotency-Key": "^[!-~]{1,255}$",
    "If-Match": r'^(\*|(W/)?"[0-9]{1,16}(\.[0-9]{1,16})?")$',
    "Last-Event-ID": "^[0-9]{1,15}$",
    "Tus-Resumable": r"^1\.0\.0$",
    "Upload-Checksum": f"^(sha256|sha1) {BASE64}$",
    "Upload-Length": "^[1-9][0-9]{0,15}$",
    "Upload-Offset": "^[0-9]{1,16}$",
    "X-Content-SHA256": "^[0-9A-Fa-f]{64}$",
    "X-Event-Id": "^[!-~]{1,128}$",
}
# Without them these operations mean nothing.
NEEDED = {
    "createUpload": ("Tus-Resumable", "Upload-Length"),
    "createJobUpload": ("Tus-Resumable", "Upload-Length"),
    "continueUpload": ("Tus-Resumable", "Upload-Offset"),
    "endUpload": ("Tus-Resumable",),
}
SAID = {
    "Content-Digest": "What the file adds up to: sha-256=:BASE64: (RFC 9530).",
    "Idempotency-Key": "Under one key nothing is done twice; also a field of the body.",
    "If-Match": 'The version that the caller has seen, as its ETag ("7") or *; weak ones fit none.',
    "If-None-Match": "Answers 304 when it is still as in this ETag.",
    "If-Range": "The Range counts only while the file is as in this ETag.",
    "Last-Event-ID": "The last id that was heard; what came after it is told first.",
    "Prefer": "wait=30 holds the answer until the job has ended, like ?wait=30 (RFC 7240).",
    "Range": "The part of the file that is wanted, like bytes=0-1023.",
    "traceparent": "Where in a trace the job is to hang (W3C Trace Context).",
    "Tus-Resumable": "1.0.0.",
    "Upload-Checksum": "What this piece adds up to: sha256 BASE64.",
    "Upload-Length": "How many bytes the whole file has.",
    "Upload-Metadata": "Names, each once with a value in Base64 of UTF-8, separated by commas.",
    "Upload-Offset": "Where the piece begins: how far the upload has come.",
    "webhook-id": "The webhook's identity, by Standard Webhooks.",
    "webhook-signature": "v1,BASE64 over id, timestamp and body; several with spaces between.",
    "webhook-timestamp": "When it was sent, in seconds.",
    "X-Content-SHA256": "What the file adds up to, in hex.",
    "X-Event-Id": "The event's identity; also a field of the body.",
    "X-Request-Id": "Taken as the correlation id of this request, and echoed.",
}
TOLD = {
    "Accept-Encoding": "identity: bodies come as they are.",
    "Accept-Ranges": "bytes.",
    "Allow": "What this path has.",
    "Content-Location": "Where the file that it has become is.",
    "Content-Range": "Which part this is, and of how much.",
    "ETag": "What it is now; for If-Match and If-None-Match.",
    "Location": "Where what was made is.",
    "Preference-Applied": "wait=30, when it was asked for by Prefer.",
    "Retry-After": "In how many seconds it may go better.",
    "Tus-Resumable": "1.0.0.",
    "Tus-Version": "What is spoken here.",
    "Tus-Extension": "What else than the core of tus is known here.",
    "Tus-Max-Size": "How many bytes a file may have.",
    "Tus-Checksum-Algorithm": "What a piece may be added up with.",
    "Upload-Expires": "Until when the upload may be gone on with.",
    "Upload-Length": "How many bytes the whole file has.",
    "Upload-Metadata": "As it was announced.",
    "Upload-Offset": "How far the upload has come.",
    "WWW-Authenticate": "How to say who one is.",
    "X-Request-Id": "The correlation id, in the log too.",
}
ANNOUNCING = ("Tus-Resumable", "Upload-Length", "Upload-Metadata", "Upload-Checksum")
DIGESTS = ("Content-Digest", "X-Content-SHA256")
# What only these operations look at, by their names.
ASKED = {
    "createUpload": ANNOUNCING,
    "createJobUpload": ANNOUNCING,
    "continueUpload": ("Tus-Resumable", "Upload-Offset", "Upload-Checksum"),
    "endUpload": ("Tus-Resumable",),
    "uploadFile": DIGESTS,
    "createAsset": DIGESTS,
    "createJob": ("Prefer",),
    "createJobHere": ("Prefer",),
    "getAssetContent": ("Range", "If-Range"),
    "hearWebhook": ("webhook-id", "webhook-timestamp", "webhook-signature"),
}
MADE_HERE = ("Location", "Tus-Resumable", "Upload-Offset")
# What these have in the answers that they are meant to give, and those that may be missing.
ANSWERED = {
    "createJob": ((), ("Preference-Applied",)),
    "createJobHere": ((), ("Preference-Applied",)),
    "createUpload": (MADE_HERE, ("Upload-Expires", "Content-Location")),
    "createJobUpload": (MADE_HERE, ("Upload-Expires", "Content-Location")),
    "continueUpload": (("Tus-Resumable", "Upload-Offset"), ("Upload-Expires", "Content-Location")),
    "getUpload": (
        ("Tus-Resumable", "Upload-Offset", "Upload-Length"),
        ("Upload-Metadata", "Upload-Expires", "Content-Location"),
    ),
    "endUpload": (("Tus-Resumable",), ()),
    "getUploadOptions": (
        ("Tus-Resumable", "Tus-Version", "Tus-Extension", "Tus-Max-Size", "Tus-Checksum-Algorithm"),
        (),
    ),
    "createAsset": (("Location",), ()),
    "getAssetContent": (("Accept-Ranges",), ("ETag",)),
    "getDocs": (("ETag",), ()),
    "getDocsPart": (("ETag",), ()),
}


ELSEWHERE = (304, 307)  # the file is with the caller already, or at another service


def asked_of(endpoint: Endpoint) -> list[dict[str, Any]]:
    """Describe request headers as parameters."""
    return [
        {
            "name": name,
            "in": "header",
            "required": name in NEEDED.get(endpoint.name, ()),
            "description": SAID[name],
            "schema": TEXT | ({"pattern": FORMS[name]} if name in FORMS else {}),
        }
        for name in _asked(endpoint)
    ]


def _asked(endpoint: Endpoint) -> list[str]:
    codes = set(endpoint.codes)
    names = {
        "Idempotency-Key": {"INVALID_PARAMS", "IDEMPOTENCY_MISMATCH"} & codes,
        "traceparent": "INVALID_PARAMS" in codes,
        "If-Match": "JOB_VERSION_CONFLICT" in codes,
        "If-None-Match": 304 in endpoint.answers,
        "Last-Event-ID": "TOO_MANY_STREAMS" in codes,
        "X-Event-Id": "EVENT_ID_PAYLOAD_MISMATCH" in codes,
    }
    known = [name for name, wanted in names.items() if wanted]
    return ["X-Request-Id", *known, *ASKED.get(endpoint.name, ())]


def answered_by(endpoint: Endpoint, status: int) -> dict[str, Any]:
    """The headers of an answer that an operation is meant to give."""
    own, perhaps = ANSWERED.get(endpoint.name, ((), ())) if status not in ELSEWHERE else ((), ())
    always = ["X-Request-Id", *own, *_of_job(endpoint, status)]
    if status == 503:  # /readyz says so in a way of its own
        perhaps = (*perhaps, "Retry-After")
    if status == 307:
        always.append("Location")
    if status == 206:
        always.append("Content-Range")
    return _headers(always, perhaps)


def told_with(status: int) -> dict[str, Any]:
    """The headers of a refusal, whatever refuses."""
    always = {401: ["WWW-Authenticate"], 429: ["Retry-After"], 503: ["Retry-After"]}
    perhaps = {412: ["Tus-Version"], 415: ["Accept-Encoding"], 416: ["Content-Range"]}
    return _headers(["X-Request-Id", *always.get(status, ())], perhaps.get(status, ()))


def _headers(always: Iterable[str], perhaps: Iterable[str]) -> dict[str, Any]:
    return {name: _header(name, True) for name in dict.fromkeys(always)} | {
        name: _header(name, False) for name in perhaps
    }


def _of_job(endpoint: Endpoint, status: int) -> tuple[str, ...]:
    if endpoint.answers[status] is not Job:
        return ()
    return ("ETag", "Location") if status == 201 else ("ETag",)


def _header(name: str, required: bool) -> dict[str, Any]:
    return {"description": TOLD[name], "required": required, "schema": TEXT}
