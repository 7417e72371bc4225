"""What comes in: one frozen struct per body and per query. What goes out is in ``views``.

The constraints here are the published ones. Patterns end in ``(?!\\n)$``, because ``$`` alone lets
a line break through.
"""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from jobrunner.http.frame.paging import CURSOR

Key = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]{1,255}(?!\n)$",
        description="1 to 255 visible ASCII characters. Under one key nothing is done twice.",
    ),
]
EventId = Annotated[str, Meta(min_length=1, max_length=128)]
Instant = Annotated[datetime, Meta(tz=True, description="RFC 3339, with an offset")]
Version = Annotated[int, Meta(ge=1, le=2**53)]
Count = Annotated[int, Meta(ge=1, le=2**53)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Name = Annotated[str, Meta(min_length=1, max_length=64)]
Word = Annotated[str, Meta(min_length=1, max_length=128)]
Prose = Annotated[str, Meta(max_length=2000)]
UserId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}(?!\n)$")]
ArtifactName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}(?!\n)$")]
AssetType = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}(?!\n)$")]
LabelKey = Annotated[str, Meta(pattern=r"^[^:\x00-\x20]{1,63}(?!\n)$")]
LabelValue = Annotated[str, Meta(max_length=255, pattern=r"^[^\x00]*$")]
# What is space to one language is none to another; these are to any.
SPACE = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
Address = Annotated[
    str, Meta(max_length=2048, pattern=rf"^https?://[^/{SPACE}]+[^{SPACE}]*(?!\n)$")
]
FILE_URL = rf"^(https?://[^/{SPACE}]+[^{SPACE}]*|/[^/{SPACE}][^{SPACE}]*)(?!\n)$"
Path = Annotated[
    str,
    Meta(
        max_length=1024,
        pattern=r"^(?!\.)[A-Za-z0-9._-]{1,100}(/(?!\.)[A-Za-z0-9._-]{1,100})*(?!\n)$",
        description="Relative, of plain names; one that is not below the job's own folder is made"
        " anew",
    ),
]
# Published as they are, and refused in words of their own.
Cursor = Annotated[str, Meta(max_length=64, extra_json_schema={"pattern": CURSOR})]
EventNumber = Annotated[str, Meta(max_length=64, extra_json_schema={"pattern": "^[0-9]{1,15}$"})]
LabelWanted = Annotated[
    str, Meta(extra_json_schema={"pattern": "^[^:]+:"}, description="KEY:VALUE")
]
Payloads = Annotated[
    str,
    Meta(
        extra_json_schema={
            "pattern": "^(params|result|artifacts)?(,(params|result|artifacts)?)*$",
        }
    ),
]
Lifetime = Annotated[int, Meta(ge=1, le=10 * 366 * 86400, description="Seconds from now")]
Happening = Literal["ended", "settled", "waiting", "stuck", "transition"]
Role = Literal["user", "workflow", "admin"]


def needs_one(*names: str) -> dict[str, Any]:
    """Of a schema: at least one of these fields is there, and says something."""
    said = {"not": {"type": "null"}}
    return {"anyOf": [{"required": [name], "properties": {name: said}} for name in names]}


def not_both(one: str, other: str) -> dict[str, Any]:
    """Of a schema: of these fields at most one says something."""
    return {"not": {"allOf": [needs_one(one), needs_one(other)]}}


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every body has in common: unknown fields are refused. ``rules`` are what its schema says
    beyond its fields one by one."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = ()


class NoFields(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that says nothing."""


class Submission(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a job. The job type says what ``params`` may be; ``parameters`` is an alias."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        not_both("params", "parameters"),
        {"anyOf": [needs_one("notify_url"), {"not": needs_one("notify_on")}]},
    )
    workflow: Name
    job_type: Annotated[str, Meta(min_length=1, max_length=50)] | None = None
    params: msgspec.Raw | UnsetType = UNSET
    parameters: msgspec.Raw | UnsetType = UNSET
    idempotency_key: Key | None = None
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    run_at: Instant | None = None
    labels: Annotated[dict[LabelKey, LabelValue], Meta(max_length=16)] = {}
    notify_url: Address | None = None
    notify_on: Annotated[list[Happening], Meta(min_length=1, max_length=5)] | None = None


class ReportedAsset(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``id`` is that of a file that was sent for this attempt (with ``asset_type`` where that is to
    be another one); a file that lies elsewhere has ``asset_type`` and ``url``."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        {
            "anyOf": [
                {
                    **needs_one("id"),
                    "not": needs_one("url", "storage_path", "file_size", "sha256"),
                },
                {"allOf": [needs_one("asset_type"), needs_one("url")], "not": needs_one("id")},
            ]
        },
    )
    id: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    asset_type: Name | None = None
    url: Annotated[str, Meta(max_length=2048, pattern=FILE_URL)] | None = None
    storage_path: Path | None = None
    file_size: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{64}(?!\n)$")] | None = None


class Reported(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may accompany a move: results, files, progress, or why it failed. ``run_id``,
    ``attempt`` and ``claim`` say which work it is of, as the claim was answered."""

    artifact_updates: dict[ArtifactName, Any] | None = None
    assets: list[ReportedAsset] | None = None
    result: dict[str, Any] | None = None
    progress: Percent | None = None
    message: str | None = None
    failure_code: Word | None = None
    failure_message: Annotated[str, Meta(min_length=1)] | None = None
    failed_stage: Word | None = None
    retryable: bool | None = None
    run_id: Word | None = None
    attempt: Count | None = None
    claim: Count | None = None


class Transition(Reported, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: Name
    expected_version: Version | None = None
    reason: Prose | None = None


class StatusEvent(Reported, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A callback. ``event_id`` may come as the header X-Event-Id instead; ``target_status`` is an
    alias of ``status``, and ``failure_reason`` stands in for a missing ``failure_message``."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        needs_one("status", "target_status"),
        not_both("status", "target_status"),
    )
    occurred_at: Instant
    event_id: EventId | None = None
    status: Name | None = None
    target_status: Name | None = None
    correlation_id: Word | None = None
    job_id: str | None = None
    actor_type: Word | None = None
    failure_reason: Annotated[str, Meta(min_length=1)] | None = None


class Progress(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without any field it is a heartbeat."""

    progress: Percent | None = None
    message: str | None = None
    run_id: Word | None = None
    attempt: Count | None = None
    claim: Count | None = None


class WorkWanted(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An outside worker looks for jobs; ``status`` narrows it to one or some of their statuses."""

    workflow: Name
    status: Name | Annotated[list[Name], Meta(max_length=64)] | None = None
    job_type: Name | None = None
    max: Annotated[int, Meta(ge=1, le=100)] = 1
    wait: Annotated[float, Meta(ge=0, le=30)] = 0


class ArtifactEdit(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: Any
    base_version: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    expected_version: Version | None = None


class Reasoned(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Prose | None = None


class AnyCommand(Reasoned, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every command may be given with; its own fields stand with the declared ones."""

    expected_version: Version | None = None


class GrantOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Under one ``idempotency_key`` an account is given these credits once."""

    amount: Annotated[int, Meta(ge=1, le=10**9)]
    reason: Annotated[str, Meta(min_length=1, max_length=500)]
    idempotency_key: Key | None = None


class TokenOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``credits`` is what a new account starts with; without it, what the service is set to.
    ``workflows`` are the only ones that a token of role ``workflow`` is for; without it, all."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        not_both("expires_at", "expires_in"),
        {
            "anyOf": [
                {"properties": {"role": {"const": "workflow"}}},
                {"properties": {"workflows": {"maxItems": 0}}},
            ]
        },
    )
    name: UserId
    role: Role
    expires_at: Instant | None = None
    expires_in: Lifetime | None = None
    credits: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    workflows: Annotated[list[Name], Meta(max_length=64)] = []


class Rotation(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The old token is good for ``grace`` seconds more; the new one for ``expires_in``, or without
    end."""

    grace: Annotated[int, Meta(ge=0, le=366 * 86400)] = 86400
    expires_in: Lifetime | None = None


class Query(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may stand behind the ``?``. Names in ``many`` may be repeated."""

    many: ClassVar[frozenset[str]] = frozenset()


class PageQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: Cursor | None = None


class JobsQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``status`` and ``label`` (KEY:VALUE) may be repeated; so may ``include``."""

    many: ClassVar[frozenset[str]] = frozenset({"status", "label", "include"})
    workflow: str | None = None
    status: list[str] = []
    job_type: str | None = None
    label: Annotated[list[LabelWanted], Meta(max_length=16)] = []
    user_id: str | None = None
    offset: Annotated[int, Meta(ge=0, le=10_000, description="Not together with cursor")] | None = (
        None
    )
    order: Literal["newest", "oldest"] = "newest"
    include: list[Payloads] = []
    stuck: bool = False
    paused: bool = False


class JobQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``wait`` holds the answer for so many seconds, until something was decided or, with
    ``progress``, until anything changed."""

    wait: Annotated[float, Meta(ge=0, le=60)] = 0
    progress: bool = False


class RowsQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000
    cursor: Cursor | None = None


class JobEventsQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``last_event_id`` is for clients that cannot send the header Last-Event-ID."""

    last_event_id: EventNumber | None = None


class EventsQuery(JobEventsQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``status`` may be repeated; ``user_id`` is for who sees the jobs of others."""

    many: ClassVar[frozenset[str]] = frozenset({"status"})
    workflow: str | None = None
    status: list[str] = []
    user_id: str | None = None


class FilesQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 100
    cursor: Cursor | None = None


class UploadQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``name`` is what the file is called; what of it cannot stand in a path is replaced.
    ``upload`` says which of the files that the workflow takes this is (default: the first)."""

    name: Annotated[str, Meta(max_length=1024)] = ""
    upload: Annotated[str, Meta(max_length=64)] = ""


class ShelfQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=1024)] = ""


class SendQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``artifact`` is what the file is the value of, as soon as a report succeeds; ``asset_type``
    what it is in the job's library (else as its media type says). ``claim``, ``attempt`` and
    ``run_id`` say which work it is of."""

    name: Annotated[str, Meta(max_length=1024)] = ""
    artifact: ArtifactName | None = None
    asset_type: AssetType | None = None
    claim: Count | None = None
    attempt: Count | None = None
    run_id: Word | None = None


class AnnounceQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``job_id``: a worker's file for the attempt that it holds; the rest as with
    ``POST /jobs/{id}/assets``."""

    job_id: Annotated[str, Meta(max_length=64)] | None = None
    artifact: ArtifactName | None = None
    asset_type: AssetType | None = None
    claim: Count | None = None


class ArtifactQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Version | None = None


class DrawingQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["json", "mermaid", "svg"] = "json"


class OwnedQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``user_id`` is for admins."""

    user_id: str | None = None


class OwnedPageQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``user_id`` is for admins; of files, also for who has claimed a job that may look at them."""

    user_id: str | None = None


class DeadLettersQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hidden: bool = False
