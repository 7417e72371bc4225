"""Six states, seven edges: the whole lifecycle as data."""

from jobrunner import (
    Audit,
    Birth,
    Call,
    Command,
    Deadline,
    Edge,
    Guard,
    JobType,
    Listed,
    Lock,
    Quota,
    Recipe,
    Retry,
    Shape,
    State,
    Workflow,
)

PROMPT_ALLOWED = Call("prompt_allowed")
ONE_PICTURE = Call("one_picture")

STATES = (
    State("queued", "queued", onward={"*": "running"}, entry=0),
    State(
        "running",
        "active",
        stage={"*": "image.generate"},
        done="completed",
        rejected="rejected",
        limit_s=120,
        heartbeat_s=60,
        deadline=Deadline(120),
        retry=Retry(
            "round_trip",
            failed=("failed", "dead_letter"),
            again="queued",
            max=3,
            base_s=2,
            factor=2,
            cap_s=60,
            jitter=0.1,
        ),
    ),
    State("failed", "waiting", person=False, fails=("failure_message",)),
    State("completed", "final", entry=100, ends="completed"),
    State("rejected", "final", ends="rejected", remarks=True),
    State("dead_letter", "final", ends="failed", remarks=True, dead_letter=True),
)

EDGES = (
    Edge(
        "queued",
        "running",
        by=("engine", "workflow"),
        guards=(Guard(PROMPT_ALLOWED, otherwise=("rejected",), code="PROMPT_BLOCKED"),),
    ),
    Edge(
        "queued",
        "rejected",
        by=("engine", "workflow"),
        money="capture",
        audit=Audit("SAFE_BLOCK", {"phase": "preflight"}),
    ),
    Edge(
        "running",
        "completed",
        by=("stage", "workflow"),
        guards=(Guard(ONE_PICTURE),),
        money="capture",
    ),
    Edge("running", "failed", by=("stage", "timer", "engine", "workflow")),
    Edge("failed", "queued", by=("timer",)),
    Edge("failed", "dead_letter", by=("engine",), money="release"),
    Edge(
        "running",
        "rejected",
        by=("stage", "workflow"),
        money="capture",
        audit=Audit("SAFE_BLOCK", {"phase": "provider"}),
    ),
)

ANNOTATE = Command(
    "annotate",
    walks={state.name: () for state in STATES},
    roles=("admin",),
    fields="note",
    audited=True,
)

ARTIFACTS = (
    Listed("provider_result", (Shape("object", at_least=1),)),
    Listed("original", (Shape("string", at_least=1),)),
)

WORKFLOW = Workflow(
    name="image-generation",
    version="1",
    initial="queued",
    states=STATES,
    edges=EDGES,
    job_types=(JobType("image", params="image", price=1, as_given=True),),
    commands=(ANNOTATE,),
    artifacts=ARTIFACTS,
    birth=Birth(guards=(Guard(PROMPT_ALLOWED),), money="hold"),
    recipe=Recipe(
        derive=Call("same_minute"), client="instead", freed=("failed",), supersede=("dead_letter",)
    ),
    locks=(Lock("job", guarded=("running",)),),
    quota=Quota(open_jobs=100, per_minute=60),
    folder="originals",
    codes={"PROMPT_BLOCKED": 422, "TOO_MANY_PICTURES": 409},
)
