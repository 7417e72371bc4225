"""How to stand in each of the forty states, and what each of the 384 pairs then does.

All of it is data, in the words of the HTTP contract: what a step says is the body of a request, so
that the pure core and a running service can be walked along the same table. One caller takes every
step: an admin, who also owns the jobs, with every stage bound to ``external``.

The pairs are written out by hand. A table that was read from the declarations would agree with
them whatever they said.
"""

from collections.abc import Iterator
from typing import Any, Literal

from jobrunner_asset_pattern import definition as asset_pattern
from jobrunner_cutx import definition as cutx
from jobrunner_howera import definition as howera
from jobrunner_image_generation import definition as image_generation
from jobrunner_ss import definition as ss
from msgspec import Struct

from jobrunner.core.decision import Decision
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.job import Asset
from jobrunner.core.messages import Claim, Do, Message, Move, Report
from tests.driving import ADMIN, Said, World, outside

Outcome = Literal["moves", "reenters", "stays", "progresses", "refused"]
Pair = tuple[str, str]


class Post(Struct, frozen=True):
    """``POST /jobs`` {workflow, job_type, params}"""

    job_type: str
    params: dict[str, Any] = {}


class Transition(Struct, frozen=True):
    """``POST /jobs/{id}/transitions`` {to, **report}"""

    to: str
    report: dict[str, Any] = {}


class Command(Struct, frozen=True):
    """``POST /jobs/{id}/{name}`` {**fields}"""

    name: str
    fields: dict[str, Any] = {}


class Take(Struct, frozen=True):
    """``POST /jobs/{id}/claim`` {}"""


Step = Post | Transition | Command | Take


class Lifecycle(Struct, frozen=True):
    """``steps`` leads to each state, from the submission on; ``reports`` is what a move to a state
    must say to pass its guards; ``moves`` are the edges to another state, ``again`` those of a
    state to itself, and ``stays`` and ``progresses`` the repeats that succeed without an edge."""

    definition: Definition
    kinds: dict[str, str]
    steps: dict[str, tuple[Step, ...]]
    moves: frozenset[Pair]
    reports: dict[str, dict[str, Any]] = {}
    again: frozenset[str] = frozenset()
    stays: frozenset[str] = frozenset()
    progresses: frozenset[str] = frozenset()

    def outcome(self, source: str, target: str) -> Outcome:
        if (source, target) in self.moves:
            return "moves"
        if source != target:
            return "refused"
        repeats: dict[Outcome, frozenset[str]] = {
            "reenters": self.again,
            "stays": self.stays,
            "progresses": self.progresses,
        }
        return next((name for name, states in repeats.items() if source in states), "refused")


def pairs(**targets: str) -> frozenset[Pair]:
    """``queued="running rejected"`` is two pairs."""
    return frozenset((source, to) for source, names in targets.items() for to in names.split())


def kinds(**states: str) -> dict[str, str]:
    """``waiting="created confirmed"`` is the kind of two states."""
    return {state: kind for kind, names in states.items() for state in names.split()}


# ---------------------------------------------------------------- image-generation

PICTURE = {"assets": [{"asset_type": "image", "url": "https://pictures.example/1.png"}]}
WHY = {"failure_message": "told so by hand"}

_image = (Post("image", {"prompt": "a lighthouse"}),)
_running = (*_image, Take())

IMAGE_GENERATION = Lifecycle(
    outside(image_generation),
    kinds(
        waiting="failed",
        queued="queued",
        active="running",
        final=("completed rejected dead_letter"),
    ),
    {
        "queued": _image,
        "running": _running,
        "failed": (*_running, Transition("failed", WHY)),
        "completed": (*_running, Transition("completed", PICTURE)),
        "rejected": (*_running, Transition("rejected")),
        "dead_letter": (*_running, Transition("failed", {**WHY, "retryable": False})),
    },
    pairs(
        queued="running rejected",
        running="completed failed rejected",
        failed="queued dead_letter",
    ),
    {"completed": PICTURE, "failed": WHY},
)

# ---------------------------------------------------------------- cutx

RESULT = {"result": {"variants": ["one", "two", "three", "four", "five"]}}

_copy = (Post("copy", {"product_id": "lamp-7"}),)
_working = (*_copy, Take())

CUTX = Lifecycle(
    outside(cutx),
    kinds(
        queued="pending queued",
        active="processing",
        settled="failed expired",
        final="completed canceled",
    ),
    {
        "pending": _copy,
        "queued": (Post("static_ad", {"product_id": "lamp-7"}),),
        "processing": _working,
        "completed": (*_working, Transition("completed", RESULT)),
        "canceled": (*_working, Command("cancel")),
        "failed": (*_working, Transition("failed", WHY)),
        "expired": (*_working, Transition("expired")),
    },
    pairs(
        pending="queued processing failed canceled",
        queued="processing failed canceled",
        processing="completed failed canceled expired",
        failed="pending",
        expired="pending",
    ),
    {"completed": RESULT, "failed": WHY},
)

# ---------------------------------------------------------------- ss

DRAFT = {"artifact_updates": {"draft": "Sum the sales by region."}}

_created = (Post("work", {"requirement": "Sum the sales"}),)
_drafted = (*_created, Command("draft", {"draft": "Sum the sales by region."}))
_in_line = (*_drafted, Command("confirm", {"confirmed": True}))
_at_work = (*_in_line, Take())

SS = Lifecycle(
    outside(ss),
    kinds(
        waiting="created draft_ready confirmed",
        queued="queued",
        active="running",
        settled="failed",
        final="succeeded",
    ),
    {
        "created": _created,
        "draft_ready": _drafted,
        "confirmed": (*_drafted, Command("freeze-plan"), Transition("confirmed")),
        "queued": _in_line,
        "running": _at_work,
        "succeeded": (*_at_work, Transition("succeeded", {"result": {"total": 12}})),
        "failed": (*_at_work, Transition("failed", WHY)),
    },
    pairs(
        created="draft_ready",
        draft_ready="confirmed",
        confirmed="queued",
        queued="running",
        running="succeeded failed",
        failed="queued",
    ),
    {"draft_ready": DRAFT, "failed": WHY},
    stays=frozenset("created draft_ready confirmed queued running succeeded failed".split()),
)

# ---------------------------------------------------------------- asset-pattern

_batch = (Post("generation"),)
_batched = (*_batch, Take())

ASSET_PATTERN = Lifecycle(
    outside(asset_pattern),
    kinds(queued="queued", active="processing", final="completed partial failed"),
    {
        "queued": _batch,
        "processing": _batched,
        "completed": (*_batched, Transition("completed")),
        "partial": (*_batched, Transition("partial")),
        "failed": (*_batched, Transition("failed", WHY)),
    },
    pairs(queued="processing", processing="completed partial failed"),
    {"processing": {"progress": 25}, "failed": WHY},
    stays=frozenset(("queued", "completed", "partial", "failed")),
    progresses=frozenset(("processing",)),
)

# ---------------------------------------------------------------- howera

GAVE_UP = {
    "failure_code": "BAD_CODEC",
    "failure_message": "the video cannot be read",
    "failed_stage": "TRANSCRIBING",
}
EXPORTED = {"artifact_updates": {"export_uri": "s3://exports/one.pdf"}}

_video = (Post("video"),)
_uploaded = (*_video, Command("confirm-upload", {"video_uri": "s3://videos/one.mp4"}))
_extracting = (*_uploaded, Command("run"))
_audio = (*_extracting, Transition("AUDIO_READY", {"artifact_updates": {"audio_uri": "s3://a"}}))
_transcribing = (*_audio, Transition("TRANSCRIBING"))
_transcript = (
    *_transcribing,
    Transition("TRANSCRIPT_READY", {"artifact_updates": {"transcript_uri": "s3://t"}}),
)
_generating = (*_transcript, Transition("GENERATING"))
_text = {"artifact_updates": {"draft": "# One", "draft_uri": "s3://d"}}
_draft_ready = (*_generating, Transition("DRAFT_READY", _text))
_editing = (*_draft_ready, Command("edit"))
_exporting = (*_editing, Command("export", {"format": "PDF"}))

_howera_steps: dict[str, tuple[Step, ...]] = {
    "CREATED": _video,
    "UPLOADING": (*_video, Command("start-upload")),
    "UPLOADED": _uploaded,
    "AUDIO_EXTRACTING": _extracting,
    "AUDIO_READY": _audio,
    "TRANSCRIBING": _transcribing,
    "TRANSCRIPT_READY": _transcript,
    "GENERATING": _generating,
    "DRAFT_READY": _draft_ready,
    "EDITING": _editing,
    "REGENERATING": (*_editing, Command("regenerate", {"instruction": "shorter"})),
    "EXPORTING": _exporting,
    "DONE": (*_exporting, Transition("DONE", EXPORTED)),
    "FAILED": (*_transcribing, Command("fail", GAVE_UP)),
    "CANCELLED": (*_uploaded, Command("cancel")),
}

HOWERA = Lifecycle(
    outside(howera),
    kinds(
        waiting=("CREATED UPLOADING UPLOADED AUDIO_READY TRANSCRIPT_READY DRAFT_READY EDITING"),
        active="AUDIO_EXTRACTING TRANSCRIBING GENERATING REGENERATING EXPORTING",
        final="DONE FAILED CANCELLED",
    ),
    _howera_steps,
    pairs(
        CREATED="UPLOADING UPLOADED CANCELLED FAILED",
        UPLOADING="UPLOADED CANCELLED FAILED",
        UPLOADED="AUDIO_EXTRACTING CANCELLED FAILED",
        AUDIO_EXTRACTING="AUDIO_READY CANCELLED FAILED",
        AUDIO_READY="TRANSCRIBING CANCELLED FAILED",
        TRANSCRIBING="TRANSCRIPT_READY CANCELLED FAILED",
        TRANSCRIPT_READY="GENERATING CANCELLED FAILED",
        GENERATING="DRAFT_READY CANCELLED FAILED",
        DRAFT_READY="EDITING CANCELLED FAILED",
        EDITING="REGENERATING EXPORTING CANCELLED FAILED",
        REGENERATING="EDITING CANCELLED FAILED",
        EXPORTING="DONE EDITING CANCELLED FAILED",
    ),
    {"DONE": EXPORTED, "FAILED": GAVE_UP},
    again=frozenset(("AUDIO_EXTRACTING", "TRANSCRIBING", "GENERATING")),
)

LIFECYCLES: dict[str, Lifecycle] = {
    one.definition.workflow.name: one for one in (IMAGE_GENERATION, CUTX, SS, ASSET_PATTERN, HOWERA)
}


def every_pair() -> Iterator[tuple[str, str, str]]:
    """Workflow, source and target of all 384."""
    for name, lifecycle in LIFECYCLES.items():
        for source in lifecycle.steps:
            yield from ((name, source, target) for target in lifecycle.steps)


# ---------------------------------------------------------------- in the pure core


def stand(workflow: str, state: str) -> World:
    """A world with one job, which stands there."""
    lifecycle = LIFECYCLES[workflow]
    world = World(lifecycle.definition)
    for step in lifecycle.steps[state]:
        said = take(world, step)
        assert isinstance(said, Decision), f"{workflow} on the way to {state}, {step}: {said!r}"
    assert only(world) in world.jobs
    return world


def take(world: World, step: Step) -> Said:
    """One step of the world's only job, by its owner, who is an admin."""
    if isinstance(step, Post):
        return world.submit(step.job_type, step.params, actor=ADMIN)
    return world.tell(only(world), message_of(step))


def message_of(step: Step) -> Message:
    """A step of a job that is there, as the core is told of it."""
    match step:
        case Transition(to, report):
            return Move(ADMIN, to, report_of(report))
        case Command(name, fields):
            return Do(ADMIN, name, fields)
        case _:
            return Claim(ADMIN)


def only(world: World) -> str:
    (job_id,) = world.jobs
    return job_id


def report_of(body: dict[str, Any]) -> Report:
    """What a body reports, as the core takes it in."""
    rest = {
        name: value for name, value in body.items() if name not in ("artifact_updates", "assets")
    }
    assets = tuple(
        Asset(f"asset-{number}", **asset) for number, asset in enumerate(body.get("assets", ()))
    )
    return Report(artifacts=body.get("artifact_updates", {}), assets=assets, **rest)
