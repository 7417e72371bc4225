"""Seven states, seven edges, five commands: the whole lifecycle as data."""

from jobrunner import (
    Call,
    Command,
    Deadline,
    Edge,
    Editable,
    Guard,
    JobType,
    Listed,
    Lock,
    Recipe,
    Retry,
    Shape,
    State,
    Upload,
    Workflow,
)

HOUR_S = 3600
DRAFTING_S = 300

DRAFTED = Guard(
    Call(
        "artifact_present",
        {"name": "draft", "code": "DRAFT_MISSING", "detail": "no draft is stored; send one"},
    )
)
FROZEN = Guard(Call("frozen"))
KEPT = Guard(Call("kept"))

STATES = (
    State(
        "created",
        "waiting",
        same="noop",
        on_demand="ss.draft",
        done="draft_ready",
        limit_s=DRAFTING_S,
        retry=Retry("inside", failed=(), max=3, base_s=1, factor=2, cap_s=30, jitter=0.1),
    ),
    State("draft_ready", "waiting", same="noop"),
    State("confirmed", "waiting", same="noop"),
    State("queued", "queued", same="noop", onward={"*": "running"}),
    State(
        "running",
        "active",
        stage={"*": "ss.run"},
        same="noop",
        done="succeeded",
        limit_s=HOUR_S,
        deadline=Deadline(HOUR_S),
        entry=0,
        retry=Retry("inside", failed=("failed",), max=3, base_s=1, factor=2, cap_s=30, jitter=0.1),
    ),
    State("succeeded", "final", same="noop", entry=100, ends="completed"),
    State("failed", "settled", same="noop", ends="failed", fails=("failure_message",)),
)

EDGES = (
    Edge("created", "draft_ready", by=("user", "stage", "workflow"), guards=(DRAFTED,)),
    Edge("draft_ready", "confirmed", by=("user",), guards=(Guard(Call("answered")), KEPT)),
    Edge("confirmed", "queued", by=("user",), guards=(FROZEN, KEPT)),
    Edge(
        "queued",
        "running",
        by=("engine", "workflow"),
        guards=(
            Guard(
                Call("frozen"),
                on=("engine", "workflow"),
                otherwise=("running", "failed"),
                code="PLAN_MISSING",
            ),
            Guard(Call("frozen"), on=("admin",)),
        ),
    ),
    Edge("running", "succeeded", by=("stage", "workflow")),
    Edge("running", "failed", by=("stage", "timer", "engine", "workflow")),
    Edge("failed", "queued", by=("user", "admin"), guards=(FROZEN, KEPT)),
)

COMMANDS = (
    Command(
        "draft",
        walks={"created": ("draft_ready",), "draft_ready": ()},
        roles=("user", "workflow"),
        fields="draft",
        identity=Call("draft_locked"),
        action=Call("store_draft"),
    ),
    Command(
        "freeze-plan",
        walks={"draft_ready": (), "confirmed": ()},
        fields="freeze",
        identity=Call("freeze_known"),
        action=Call("freeze"),
    ),
    Command(
        "confirm",
        walks={"draft_ready": ("confirmed", "queued"), "confirmed": ("queued",)},
        satisfied=("queued", "running", "succeeded"),
        fields="confirm",
        identity=Call("skip"),
        action=Call("confirm"),
    ),
    Command(
        "run",
        walks={
            "draft_ready": ("confirmed", "queued"),
            "confirmed": ("queued",),
            "failed": ("queued",),
        },
        satisfied=("queued", "running", "succeeded"),
        roles=("user", "admin"),
        action=Call("start"),
    ),
    Command(
        "retry",
        walks={"failed": ("queued",)},
        satisfied=("queued", "running"),
        roles=("user", "admin"),
        aliases=("/api/admin/jobs/{id}/retry",),
    ),
)

DRAFT_MAX = 4 * 1024 * 1024
DRAFT = Editable(
    "draft",
    walks={"created": ("draft_ready",), "draft_ready": ()},
    action=Call("unlocked"),
    max_size=DRAFT_MAX,
)

INPUT = Upload(
    "input",
    walks={"created": (), "draft_ready": ()},
    asset_type="input",
    artifact="input",
    fingerprint="fingerprint",
    action=Call("take_input"),
)

TEXT = Shape("string", at_least=1)
OBJECT = Shape("object")
OPEN = ("created", "draft_ready")
PLAN = Shape(
    "object",
    fields={
        "plan_id": (TEXT,),
        "fingerprint": (Shape("string"),),
        "requirement": (Shape("string"),),
        "answers": (OBJECT,),
        "draft_version": (Shape("integer"),),
    },
)

# The plan is what was agreed on: freezing makes it, and nobody brings one. What it covers is not
# written once it is agreed.
ARTIFACTS = (
    Listed("draft", (TEXT, OBJECT), ("user", "workflow", "stage", "admin"), OPEN),
    Listed("answers", (OBJECT,), ("user", "workflow", "admin"), (*OPEN, "confirmed")),
    Listed("plan", (PLAN,), writers=()),
    Listed("input", (TEXT,), ("workflow", "admin"), OPEN),
    Listed("fingerprint", (TEXT,), ("user", "workflow", "admin"), OPEN),
    Listed("results", (OBJECT, Shape("array")), states=("running",)),
    Listed("figure", (TEXT,), states=("running",)),
    Listed("report", (TEXT,), states=("running",)),
)

WORKFLOW = Workflow(
    name="ss",
    version="1",
    initial="created",
    states=STATES,
    edges=EDGES,
    job_types=(JobType("work", params="ss"),),
    commands=COMMANDS,
    editables=(DRAFT,),
    uploads=(INPUT,),
    artifacts=ARTIFACTS,
    recipe=Recipe(derive=Call("same_request"), client="additional"),
    locks=(Lock("job", guarded=("running",)),),
    codes={
        "FINGERPRINT_MISMATCH": 409,
        "DRAFT_MISSING": 409,
        "DRAFT_CONFIRM_BLOCKED": 400,
        "PLAN_MISSING": 409,
        "PLAN_FREEZE_NOT_ALLOWED": 409,
        "PLAN_FREEZE_MISSING_REQUIRED": 400,
        "PLAN_ALREADY_FROZEN_CONFLICT": 409,
    },
)
