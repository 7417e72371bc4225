"""What goes out: one frozen struct per answer. Every instant is RFC 3339 text in UTC."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jobrunner.core.declaration.workflow import End


class View(Struct, frozen=True, kw_only=True):
    """What every answer has in common."""


class Money(View, frozen=True, kw_only=True):
    cost: int
    state: str


class Allowed(View, frozen=True, kw_only=True):
    """What the caller may ask for next."""

    statuses: list[str]
    commands: list[str]


class Stuck(View, frozen=True, kw_only=True):
    """``missing`` is what its plugin does not bring today; the job goes on when it is back."""

    reason: str
    missing: list[str] | UnsetType = UNSET


class WebhookHeard(View, frozen=True, kw_only=True):
    """What became of a webhook. ``reason``, when it was not applied: ``replayed`` (its id came
    before), ``kept`` (nobody awaits it yet), ``over`` (who awaited it does so no more), ``gone``
    (the job was deleted), ``nothing_to_say``, ``not_understood``."""

    applied: bool
    reason: str | UnsetType = UNSET


class HeldBack(View, frozen=True, kw_only=True):
    """Who paused the job, why, and since when."""

    by: str
    reason: str | None
    at: str


class Job(View, frozen=True, kw_only=True):
    """A job. Lists leave out params, result and artifacts unless they are asked for. ``job_id``
    is ``id`` once more. An artifact over 4 KiB is shown as {"ref": path}. ``ended_as`` names its
    end in words that all workflows share; ``needs_person`` is true while nothing but a person's
    act moves it."""

    id: str
    job_id: str
    workflow: str
    workflow_version: str | None
    job_type: str
    user_id: str
    status: str
    kind: str
    version: int
    progress: int
    progress_message: str | None
    attempt: int
    retry_count: int
    run_id: str | None
    params: Any | UnsetType = UNSET
    result: Any | UnsetType = UNSET
    artifacts: dict[str, Any] | UnsetType = UNSET
    failure_code: str | None
    failure_message: str | None
    failed_stage: str | None
    correlation_id: str | None
    idempotency_key: str | None
    priority: int
    labels: dict[str, str]
    credits: Money
    created_at: str
    updated_at: str
    started_at: str | None
    completed_at: str | None
    scheduled_at: str | None
    heartbeat_at: str | None
    next_attempt_at: str | None
    deadline_at: str | None
    run_at: str | None
    result_url: str | None
    notify_url: str | None
    notify_on: list[str]
    stuck: Stuck | None
    paused: HeldBack | None
    forked_from: str | None
    ended_as: End | None
    needs_person: bool
    allowed: Allowed
    replayed: bool | UnsetType = UNSET


class Jobs(View, frozen=True, kw_only=True):
    jobs: list[Job]
    next_cursor: str | None


class HistoryEntry(View, frozen=True, kw_only=True):
    version: int
    hop: int
    from_status: str | None
    to_status: str
    trigger: str
    actor: str
    reason: str | None
    run_id: str
    event_id: str | None
    at: str


class History(View, frozen=True, kw_only=True):
    history: list[HistoryEntry]
    next_cursor: str | None


class Transition(View, frozen=True, kw_only=True):
    """What a stream says of one version of a job. ``status`` is where its last hop led."""

    job_id: str
    workflow: str
    user_id: str
    version: int
    status: str
    hops: list[HistoryEntry]


class AttemptEntry(View, frozen=True, kw_only=True):
    state: str
    stage: str
    run_id: str
    attempt: int
    status: str
    outcome: str | None
    failure_code: str | None
    failure_message: str | None
    started_at: str | None
    ended_at: str | None
    log: list[str]


class Attempts(View, frozen=True, kw_only=True):
    attempts: list[AttemptEntry]
    next_cursor: str | None


class AssetEntry(View, frozen=True, kw_only=True):
    id: str
    job_id: str | None
    asset_type: str
    url: str
    storage_path: str | None
    file_size: int | None
    sha256: str | None
    created_at: str


class Assets(View, frozen=True, kw_only=True):
    assets: list[AssetEntry]
    next_cursor: str | None


class UploadView(View, frozen=True, kw_only=True):
    """A file that comes in piece by piece: ``offset`` bytes of ``length`` are here. ``asset_id`` is
    what it became."""

    id: str
    job_id: str | None
    upload: str | None
    offset: int
    length: int
    name: str
    asset_id: str | None
    expires_at: str


class Library(View, frozen=True, kw_only=True):
    assets: list[AssetEntry]
    next_cursor: str | None


class ArtifactVersion(View, frozen=True, kw_only=True):
    version: int
    created_at: str


class ArtifactValue(View, frozen=True, kw_only=True):
    name: str
    version: int
    value: Any
    created_at: str
    versions: list[ArtifactVersion]


class Claimed(View, frozen=True, kw_only=True):
    job: Job
    run_id: str
    attempt: int
    claim: int
    lease_until: str | None


class Claims(View, frozen=True, kw_only=True):
    claims: list[Claimed]


class EventReplayed(View, frozen=True, kw_only=True):
    job_id: str
    event_id: str
    replayed: bool
    current_status: str
    latest_applied_occurred_at: str | None


class StateView(View, frozen=True, kw_only=True):
    """``stage`` is one name, or several by job type; None where nothing is run."""

    name: str
    kind: str
    stage: str | dict[str, str] | None
    same: str
    ends: str | None
    deadline_s: float | None
    limit_s: float | None
    retry_max: int | None


class EdgeView(View, frozen=True, kw_only=True):
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    triggers: list[str]
    guards: list[str]
    money: str | None


class CommandView(View, frozen=True, kw_only=True):
    """``path`` says, by the status it starts in, which statuses it walks."""

    name: str
    source: list[str] = msgspec.field(name="from")
    path: dict[str, list[str]]
    satisfied: list[str]
    roles: list[str]
    fields_schema: dict[str, Any] | None


class JobTypeView(View, frozen=True, kw_only=True):
    """``result_schema`` is what a result must be, where the workflow says so."""

    params_schema: dict[str, Any]
    price: int
    result_schema: dict[str, Any] | None


class UploadKind(View, frozen=True, kw_only=True):
    """A file that jobs take: in which states, as what, and what it becomes."""

    name: str
    source: list[str]
    asset_type: str
    types: list[str]
    max_bytes: int | None


class ArtifactKind(View, frozen=True, kw_only=True):
    """An artifact that the workflow lists: what it must be, whose reports may bring it (nobody's:
    it is written by commands alone), and from which states (none: from all)."""

    name: str
    value_schema: dict[str, Any]
    writers: list[str]
    source: list[str]


class WorkflowView(View, frozen=True, kw_only=True):
    name: str
    version: str
    digest: str
    initial: str
    states: list[StateView]
    edges: list[EdgeView]
    commands: list[CommandView]
    uploads: list[UploadKind]
    artifacts: list[ArtifactKind]
    job_types: dict[str, JobTypeView]
    params_schema: dict[str, Any]
    prices: dict[str, int]


class WorkflowEntry(View, frozen=True, kw_only=True):
    name: str
    version: str
    initial: str
    job_types: list[str]


class RefusedWorkflow(View, frozen=True, kw_only=True):
    name: str
    faults: list[str]


class Workflows(View, frozen=True, kw_only=True):
    workflows: list[WorkflowEntry]
    refused: list[RefusedWorkflow]


class Purse(View, frozen=True, kw_only=True):
    """``balance`` is what can be spent."""

    user_id: str
    balance: int
    held: int


class Granted(Purse, frozen=True, kw_only=True):
    """The account as it is now; ``replayed``: these credits were given before."""

    replayed: bool


class LedgerEntry(View, frozen=True, kw_only=True):
    kind: str
    amount: int
    balance_after: int
    held_after: int
    job_id: str | None
    run_id: str | None
    reason: str
    created_at: str


class Ledger(View, frozen=True, kw_only=True):
    history: list[LedgerEntry]
    next_cursor: str | None


class AuditEntry(View, frozen=True, kw_only=True):
    id: int
    at: str
    event: str
    actor: str
    job_id: str | None
    fields: dict[str, Any]


class Audit(View, frozen=True, kw_only=True):
    audit: list[AuditEntry]
    next_cursor: str | None


class DeadLetterEntry(View, frozen=True, kw_only=True):
    id: int
    at: str
    job_id: str
    workflow: str
    user_id: str
    reason: str
    failure_code: str
    failure_message: str
    failed_stage: str
    hidden: bool


class DeadLetters(View, frozen=True, kw_only=True):
    dead_letters: list[DeadLetterEntry]
    next_cursor: str | None


class TokenEntry(View, frozen=True, kw_only=True):
    """``token`` is shown once, when it is made. ``workflows``: none means all."""

    id: str
    name: str
    role: str
    workflows: list[str]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    token: str | UnsetType = UNSET


class Tokens(View, frozen=True, kw_only=True):
    tokens: list[TokenEntry]


class Checked(View, frozen=True, kw_only=True):
    ok: bool
    faults: list[str]


class Alive(View, frozen=True, kw_only=True):
    status: str
    version: str


class Readiness(View, frozen=True, kw_only=True):
    """``checks`` says by name what is wrong; an empty text is a check that passed."""

    ready: bool
    checks: dict[str, str]


class FieldFault(View, frozen=True, kw_only=True):
    path: str
    message: str


class Problem(View, frozen=True, kw_only=True):
    """RFC 9457, with a stable code; some codes bring members of their own."""

    type: str
    title: str
    status: int
    detail: str
    error_code: str
    correlation_id: str
    errors: list[FieldFault] | UnsetType = UNSET
