"""Fifteen states, 42 allowed pairs, eight commands: the whole lifecycle as data."""

from msgspec.structs import replace

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
    Retry,
    Shape,
    State,
    Upload,
    Workflow,
)

MINUTE_S = 60

STAGES = ("AUDIO_EXTRACTING", "TRANSCRIBING", "GENERATING", "REGENERATING", "EXPORTING")
CLEANUP = Deadline(0, ("CANCELLED",))


def _pipeline(
    name: str, stage: str, done: str, produces: str, limit_s: float, *along: str
) -> State:
    """A stage of the pipeline: every retry is an edge back to itself, and exhaustion is fatal."""
    return State(
        name,
        "active",
        stage={"*": stage},
        same="retry",
        done=done,
        produces=produces,
        along=along,
        limit_s=limit_s,
        deadline=Deadline(limit_s),
        retry=Retry("self_edge", failed=("FAILED",), max=3, base_s=1, factor=2, cap_s=30),
    )


def _from_the_editor(
    name: str, stage: str, done: str, limit_s: float, sift: Call | None = None
) -> State:
    """Work begun in the editor, and back there if it fails."""
    return State(
        name,
        "active",
        stage={"*": stage},
        done=done,
        limit_s=limit_s,
        deadline=Deadline(limit_s, ("EDITING",)),
        retry=Retry("inside", failed=("EDITING",), max=3, base_s=1, factor=2, cap_s=30),
        sift=sift,
    )


STATES = (
    State("CREATED", "waiting", deadline=CLEANUP),
    State("UPLOADING", "waiting", deadline=CLEANUP),
    State("UPLOADED", "waiting"),
    _pipeline(
        "AUDIO_EXTRACTING", "howera.audio", "AUDIO_READY", "audio_uri", 30 * MINUTE_S, "metrics"
    ),
    State(
        "AUDIO_READY", "waiting", person=False, checkpoint="audio_uri", onward={"*": "TRANSCRIBING"}
    ),
    _pipeline(
        "TRANSCRIBING",
        "howera.transcribe",
        "TRANSCRIPT_READY",
        "transcript_uri",
        30 * MINUTE_S,
        "metrics",
        "transcript",
    ),
    State(
        "TRANSCRIPT_READY",
        "waiting",
        person=False,
        checkpoint="transcript_uri",
        onward={"*": "GENERATING"},
        onward_if="not review_transcript",
    ),
    _pipeline("GENERATING", "howera.draft", "DRAFT_READY", "draft_uri", 15 * MINUTE_S, "draft"),
    State(
        "DRAFT_READY",
        "waiting",
        checkpoint="draft_uri",
        onward={"*": "EDITING"},
        onward_if="auto_edit",
    ),
    State("EDITING", "waiting"),
    _from_the_editor(
        "REGENERATING", "howera.regenerate", "EDITING", 5 * MINUTE_S, sift=Call("still_based")
    ),
    _from_the_editor("EXPORTING", "howera.export", "DONE", 10 * MINUTE_S),
    State("DONE", "final", entry=100, ends="completed"),
    State(
        "FAILED", "final", ends="failed", fails=("failure_code", "failure_message", "failed_stage")
    ),
    State("CANCELLED", "final", ends="canceled"),
)
OPEN = tuple(state.name for state in STATES if state.kind != "final")

VIDEO_KEPT = Guard(Call("video_kept"), on=("user", "workflow", "admin"))
VIDEO_NAMED = Guard(
    Call("video_recorded", {"code": "VALIDATION_ERROR", "status": 400}), on=("user",)
)
VIDEO_MISSING = Call("video_recorded", {"code": "VIDEO_MISSING", "status": 409})
EXPORTED = Guard(
    Call(
        "artifact_of_run",
        {
            "name": "export_uri",
            "code": "EXPORT_NOT_READY",
            "detail": "DONE needs the export_uri of this export",
        },
    )
)


def _stored(artifact: str) -> Guard:
    """Our own stage is not done before its file is there and reads back as recorded."""
    return Guard(Call("verified", {"artifact": artifact}), on=("stage",))


def _sound(artifact: str) -> Guard:
    """Keep a stage of ours from beginning on what is not whole, whoever takes the job on."""
    return Guard(Call("sound", {"artifact": artifact}), otherwise=("FAILED",), code="CORRUPT_INPUT")


TABLE = (
    Edge("CREATED", "UPLOADING", by=("user", "workflow")),
    Edge("CREATED", "UPLOADED", by=("user", "workflow"), guards=(VIDEO_NAMED,)),
    Edge("UPLOADING", "UPLOADED", by=("user", "workflow"), guards=(VIDEO_NAMED,)),
    Edge(
        "UPLOADED",
        "AUDIO_EXTRACTING",
        by=("user", "workflow"),
        guards=(Guard(VIDEO_MISSING, on=("user",)),),
    ),
    Edge("AUDIO_EXTRACTING", "AUDIO_EXTRACTING", by=("stage", "timer", "engine", "workflow")),
    Edge(
        "AUDIO_EXTRACTING", "AUDIO_READY", by=("stage", "workflow"), guards=(_stored("audio_uri"),)
    ),
    Edge(
        "AUDIO_READY",
        "TRANSCRIBING",
        by=("engine", "user", "workflow"),
        guards=(_sound("audio_uri"),),
    ),
    Edge("TRANSCRIBING", "TRANSCRIBING", by=("stage", "timer", "engine", "workflow")),
    Edge(
        "TRANSCRIBING",
        "TRANSCRIPT_READY",
        by=("stage", "workflow"),
        guards=(_stored("transcript_uri"),),
    ),
    Edge(
        "TRANSCRIPT_READY",
        "GENERATING",
        by=("engine", "user", "workflow"),
        guards=(_sound("transcript_uri"),),
    ),
    Edge("GENERATING", "GENERATING", by=("stage", "timer", "engine", "workflow")),
    Edge("GENERATING", "DRAFT_READY", by=("stage", "workflow"), guards=(_stored("draft_uri"),)),
    Edge("DRAFT_READY", "EDITING", by=("user", "workflow", "engine")),
    Edge("EDITING", "REGENERATING", by=("user", "workflow")),
    Edge("REGENERATING", "EDITING", by=("stage", "timer", "engine", "workflow")),
    Edge("EDITING", "EXPORTING", by=("user", "workflow")),
    Edge(
        "EXPORTING",
        "DONE",
        by=("stage", "workflow"),
        guards=(EXPORTED, Guard(Call("all_exported"))),
    ),
    Edge("EXPORTING", "EDITING", by=("stage", "timer", "engine", "workflow")),
    Edge("*", "CANCELLED", by=("user", "workflow", "timer")),
    Edge("*", "FAILED", by=("stage", "timer", "engine", "workflow")),
)
EDGES = tuple(replace(edge, guards=(VIDEO_KEPT, *edge.guards)) for edge in TABLE)

COMMANDS = (
    Command("start-upload", walks={"CREATED": ("UPLOADING",)}, satisfied=("UPLOADING",)),
    Command(
        "confirm-upload",
        walks={"CREATED": ("UPLOADED",), "UPLOADING": ("UPLOADED",), "UPLOADED": ()},
        fields="confirm_upload",
        identity=Call("known_video"),
        action=Call("record_video"),
    ),
    Command(
        "run",
        walks={
            "UPLOADED": ("AUDIO_EXTRACTING",),
            "AUDIO_READY": ("TRANSCRIBING",),
            "TRANSCRIPT_READY": ("GENERATING",),
            "DRAFT_READY": ("EDITING",),
        },
        roles=("user", "admin"),
        identity=Call("known_run"),
        guards=(Guard(VIDEO_MISSING),),
        status=202,
        status_from={"DRAFT_READY": 200},
    ),
    Command("cancel", walks=dict.fromkeys(OPEN, ("CANCELLED",)), roles=("user", "admin")),
    Command("edit", walks={"DRAFT_READY": ("EDITING",)}, satisfied=("EDITING",)),
    Command(
        "regenerate",
        walks={"EDITING": ("REGENERATING",)},
        fields="regenerate",
        identity=Call("known_regenerate"),
        action=Call("begin_regenerate"),
        status=202,
    ),
    Command(
        "export",
        walks={"EDITING": ("EXPORTING",)},
        fields="export",
        identity=Call("known_export"),
        action=Call("begin_export"),
        status=202,
    ),
    Command(
        "fail",
        walks=dict.fromkeys(OPEN, ("FAILED",)),
        roles=("admin",),
        fields="fail",
        audited=True,
    ),
)

DRAFT_MAX = 4 * 1024 * 1024
DRAFT = Editable(
    "draft",
    walks={"DRAFT_READY": ("EDITING",), "EDITING": (), "REGENERATING": ()},
    action=Call("renew_draft"),
    max_size=DRAFT_MAX,
)

TRANSCRIPT = Editable(
    "transcript",
    walks={"TRANSCRIPT_READY": ()},
    action=Call("read_correction"),
    max_size=DRAFT_MAX,
)

VIDEO = Upload(
    "video",
    begins={"CREATED": ("UPLOADING",)},
    walks={"CREATED": ("UPLOADING",), "UPLOADING": (), "UPLOADED": ()},
    asset_type="video",
    mark="uploaded_url",
    types=("video/*", "application/octet-stream"),
    guards=(Guard(Call("video_wanted")),),
)

PIPELINE = Lock(
    "pipeline",
    guarded=("AUDIO_EXTRACTING", "TRANSCRIBING", "GENERATING", "EXPORTING"),
    held=("AUDIO_READY", "TRANSCRIPT_READY"),
    lapse_s=30 * MINUTE_S,
)

ADDRESS = (Shape("string", at_least=1),)
OBJECT = Shape("object")

# What is asked of a worker is the commands' to write; the draft of people comes by its editor.
ARTIFACTS = (
    Listed("video_uri", ADDRESS, writers=("user", "workflow", "admin")),
    Listed("audio_uri", ADDRESS),
    Listed("transcript_uri", ADDRESS),
    Listed("transcript", (OBJECT,)),
    Listed("draft_uri", ADDRESS),
    Listed("export_uri", ADDRESS),
    Listed("exports", (OBJECT,)),
    Listed("draft", (*ADDRESS, OBJECT)),
    Listed("metrics", (OBJECT,)),
    Listed("regenerate_request", (OBJECT,), writers=()),
    Listed("export_request", (OBJECT,), writers=()),
)

WORKFLOW = Workflow(
    name="howera",
    version="1",
    initial="CREATED",
    states=STATES,
    edges=EDGES,
    job_types=(JobType("video", params="nothing"),),
    commands=COMMANDS,
    editables=(DRAFT, TRANSCRIPT),
    uploads=(VIDEO,),
    artifacts=ARTIFACTS,
    locks=(PIPELINE, Lock("regenerate", guarded=("REGENERATING",))),
    failed_stages=STAGES,
    codes={
        "VIDEO_MISSING": 409,
        "VIDEO_URI_CONFLICT": 409,
        "REGENERATE_IN_PROGRESS": 409,
        "EXPORT_NOT_READY": 409,
    },
)
