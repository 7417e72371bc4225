"""Seven states, thirteen edges, five prices: the whole lifecycle as data."""

from jobrunner import (
    Birth,
    Call,
    Command,
    Deadline,
    Edge,
    Guard,
    JobType,
    Listed,
    Lock,
    Recipe,
    Retry,
    Route,
    Shape,
    State,
    Workflow,
)

AT_ONCE = ("copy", "scrape")
IN_LINE = ("static_ad", "ugc_video", "tts")

ONWARD = {**dict.fromkeys(AT_ONCE, "processing"), **dict.fromkeys(IN_LINE, "queued")}

STATES = (
    State("pending", "queued", onward=ONWARD, entry=0),
    State("queued", "queued", onward={"*": "processing"}, deadline=Deadline(0, ("failed",))),
    State(
        "processing",
        "active",
        stage={kind: f"cutx.{kind}" for kind in (*AT_ONCE, *IN_LINE)},
        done="completed",
        limit_s=120,
        deadline=Deadline(900, ("expired",)),
        retry=Retry("inside", failed=("failed",), max=3, base_s=1, factor=2, cap_s=30, jitter=0.1),
    ),
    State("completed", "final", entry=100, ends="completed"),
    State("failed", "settled", ends="failed", fails=("failure_message",), dead_letter=True),
    State("canceled", "final", ends="canceled"),
    State("expired", "settled", ends="expired", remarks=True),
)

EDGES = (
    Edge("pending", "queued", by=("engine",)),
    Edge("pending", "processing", by=("engine", "workflow")),
    Edge("pending", "failed", by=("engine", "workflow"), money="refund"),
    Edge("pending", "canceled", by=("user", "admin"), money="refund"),
    Edge("queued", "processing", by=("engine", "workflow")),
    Edge("queued", "failed", by=("engine", "timer", "workflow"), money="refund"),
    Edge("queued", "canceled", by=("user", "admin"), money="refund"),
    Edge(
        "processing", "completed", by=("stage", "workflow"), guards=(Guard(Call("output_stored")),)
    ),
    Edge("processing", "failed", by=("stage", "timer", "engine", "workflow"), money="refund"),
    Edge("processing", "canceled", by=("user", "admin"), money="refund"),
    Edge("processing", "expired", by=("timer",), money="refund"),
    Edge("failed", "pending", by=("admin",), money="charge"),
    Edge("expired", "pending", by=("admin",), money="charge"),
)

JOB_TYPES = (
    JobType("copy", params="copy", price=1),
    JobType("static_ad", params="static_ad", price=3),
    JobType("tts", params="tts", price=2),
    JobType("ugc_video", params="ugc_video", price=40),
    JobType("scrape", params="scrape", price=0),
)

COMMANDS = (
    Command(
        "cancel",
        walks=dict.fromkeys(("pending", "queued", "processing"), ("canceled",)),
        roles=("user", "admin"),
    ),
    Command(
        "retry",
        walks=dict.fromkeys(("failed", "expired"), ("pending", "queued")),
        roles=("admin",),
        opens_run=True,
        aliases=("/api/admin/jobs/{id}/retry",),
        audited=True,
    ),
    Command(
        "refund",
        walks={"completed": ()},
        roles=("admin",),
        identity=Call("refunded_before"),
        money="refund",
        audited=True,
    ),
)

ROUTES = (
    Route(
        "POST",
        "/api/generate/copy",
        job_type="copy",
        body="copy_order",
        read="read_order",
        answer="delivered",
        wait_s=25,
    ),
    Route(
        "POST",
        "/api/generate/static-ad",
        job_type="static_ad",
        body="static_ad_order",
        read="read_order",
        answer="ordered",
    ),
    Route(
        "POST",
        "/api/generate/video",
        job_type="ugc_video",
        body="video_order",
        read="read_order",
        answer="ordered",
    ),
)

# A result that says nothing is none, and is not what was paid for.
RESULTS: dict[str, tuple[Shape, ...]] = {"*": (Shape("object", at_least=1),)}
ARTIFACTS = (
    Listed("output", (Shape("string", at_least=1),)),
    Listed("prediction", (Shape("object", at_least=1),)),
)

WORKFLOW = Workflow(
    name="cutx",
    version="1",
    initial="pending",
    states=STATES,
    edges=EDGES,
    job_types=JOB_TYPES,
    commands=COMMANDS,
    birth=Birth(money="charge"),
    recipe=Recipe(client="only", max_length=128),
    locks=(Lock("job", guarded=("processing",)),),
    routes=ROUTES,
    artifacts=ARTIFACTS,
    results=RESULTS,
)
