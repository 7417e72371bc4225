"""Five states, four edges: the whole lifecycle as data."""

from jobrunner import Deadline, Edge, JobType, Lock, Recipe, Retry, State, Workflow

STATES = (
    State(
        "queued",
        "queued",
        onward={"*": "processing"},
        deadline=Deadline(0, ("processing", "failed")),
        same="noop",
        entry=0,
    ),
    State(
        "processing",
        "active",
        stage={"generation": "asset.generation", "export": "asset.export"},
        done="completed",
        partial="partial",
        limit_s=600,
        deadline=Deadline(600),
        retry=Retry("inside", failed=("failed",), max=3, base_s=1, factor=2, cap_s=30, jitter=0.25),
        same="progress",
        entry=0,
        library=True,
    ),
    State("completed", "final", same="noop", entry=100, ends="completed"),
    State("partial", "final", same="noop", entry=100, ends="partial", remarks=True),
    State(
        "failed", "final", same="noop", ends="failed", fails=("failure_message",), dead_letter=True
    ),
)

EDGES = (
    Edge("queued", "processing", by=("engine", "workflow")),
    Edge("processing", "completed", by=("stage", "workflow")),
    Edge("processing", "partial", by=("stage", "workflow")),
    Edge("processing", "failed", by=("stage", "timer", "engine", "workflow")),
)

WORKFLOW = Workflow(
    name="asset-pattern",
    version="1",
    initial="queued",
    states=STATES,
    edges=EDGES,
    job_types=(
        JobType("generation", params="generation", as_given=True),
        JobType("export", params="export", as_given=True),
    ),
    recipe=Recipe(client="only"),
    locks=(Lock("job", guarded=("processing",)),),
    foreign=403,
)
