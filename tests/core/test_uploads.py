"""What an uploaded file may be called, and declarations of uploads that cannot be meant."""

import re
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.decide import decide
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.declaration.ask import Ask
from jobrunner.core.declaration.guards import output_stored
from jobrunner.core.declaration.workflow import Call, Definition, Guard, Upload
from jobrunner.core.facts import Facts
from jobrunner.core.features.uploads import admitted, safe_name
from jobrunner.core.job import Actor, Asset, Snapshot
from jobrunner.core.messages import Advance, Arrived, Arriving, Moment
from jobrunner.errors import Refused
from tests.core.declared import SAMPLE, define
from tests.driving import ADA, ADMIN, EVE, WORKER

SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
DEVICES = ("con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), "lpt1", "conin$")

PIECES = (
    "..", "...", "/", "//", "\\", "\\\\", "~", "~root", "", " ", "\t", "\n", "\r\n", "\0", "\x7f",
    "\u202e", "\u200b", "\ufeff", "\u2215", "\uff0f", "\uff0e\uff0e", "%2e%2e%2f", "..%00/",
    "....//", "..;/", "C:", "c:\\windows\\", "\\\\?\\", "\\\\host\\share\\", "file://", "-rf", "--",
    "$(id)", "`id`", ";id", "|id", "&", "<", ">", '"', "'", "*", "?", "[x]", "{x}", "#", "!", ":",
    "\ud7ff", "\U0001f4a9", "é", "漢字", "ß", "İ", "ﬁ", "¼", "\x1b[31m", "=cmd|' /C calc'!A0",
)  # fmt: skip
FORMS = (
    "{}", "{}etc/passwd", "etc/passwd{}", "{0}{0}{0}x", "a{}b.csv", "{}.csv", "x.{}", "{}/.ssh/id",
)  # fmt: skip
HOSTILE = [form.format(piece) for form, piece in product(FORMS, PIECES)]
HOSTILE += [f"{name}{end}" for name in DEVICES for end in ("", ".txt", ".TAR.gz")]
HOSTILE += [f"{name.upper()}.csv" for name in DEVICES]
HOSTILE += ["a" * 5000, "." * 300, "a" * 99 + ".csv", "x." + "e" * 300, ".htaccess", ".incoming"]
HOSTILE += ["../" * 100 + "x", "a.part", "a.DRAFT", "a.draft.draft", "x.json.new", "-", "_", "a-1"]


def test_the_corpus_is_large_enough() -> None:
    assert len(set(HOSTILE)) >= 300, len(set(HOSTILE))


@pytest.mark.parametrize("given", sorted(set(HOSTILE)), ids=ascii)
def test_whatever_it_is_called(given: str) -> None:
    """P10: our name, one plain part of a path, that hides nothing and is no device."""
    name = safe_name(given, "video")
    assert SAFE.fullmatch(name), name
    assert not name.startswith((".", "-"))
    assert name.partition(".")[0].lower() not in DEVICES
    assert not name.lower().endswith((".draft", ".part", ".new"))
    assert safe_name(name, "video") == name, "what is safe stays as it is"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("sales.csv", "sales.csv"),
        ("My Film (final).MP4", "My_Film_final_.MP4"),
        ("Müller Bericht.csv", "Muller_Bericht.csv"),
        ("C:\\films\\one.mp4", "one.mp4"),
        ("/etc/passwd", "passwd"),
        ("漢字", "video"),
        ("漢字.mp4", "mp4"),
        ("", "video"),
        ("nul.txt", "file-nul.txt"),
        ("x" * 200 + ".csv", "x" * 96 + ".csv"),
    ],
)
def test_names_stay_near_what_was_given(given: str, name: str) -> None:
    assert safe_name(given, "video") == name


GOOD = Upload("text", walks={"draft": ()}, asset_type="text", artifact="a_text", fingerprint="seal")


def with_upload(*uploads: Upload) -> Definition:
    return define(replace(SAMPLE, uploads=uploads))


def told(*uploads: Upload) -> str:
    return " | ".join(fault.text for fault in check(with_upload(*uploads)))


def test_a_good_upload_is_no_fault() -> None:
    assert told(GOOD) == ""
    assert told(replace(GOOD, walks={"draft": ("queued",)}, begins={"draft": ()})) == ""


@pytest.mark.parametrize(
    ("upload", "words"),
    [
        (replace(GOOD, walks={"nowhere": ()}), "names the state 'nowhere'"),
        (replace(GOOD, walks={"draft": ("nowhere",)}), "names the state 'nowhere'"),
        (replace(GOOD, begins={"nowhere": ()}), "names the state 'nowhere'"),
        (replace(GOOD, walks={"draft": ("done",)}), "not declared; declare the edge"),
        (replace(GOOD, begins={"draft": ("queued",)}), "name queued in walks"),
        (replace(GOOD, walks={}), "is taken in no state"),
        (replace(GOOD, name="A b"), "cannot stand in an address"),
        (replace(GOOD, asset_type="my type"), "asset type 'my type'"),
        (replace(GOOD, artifact="My"), "names the artifact 'My'"),
        (replace(GOOD, artifact="seal"), "in one artifact"),
        (replace(GOOD, types=("video",)), "takes the type 'video'"),
        (replace(GOOD, max_bytes=-1), "size limit below 0"),
        (replace(GOOD, locked="NO_SUCH"), "refuses with 'NO_SUCH'"),
        (replace(GOOD, action=Call("nothing")), "names the function 'nothing'"),
        (replace(GOOD, guards=(Guard(Call("nothing")),)), "names the function 'nothing'"),
        (replace(GOOD, walks={"draft": (), "done": ("draft",)}), "out of a final state"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_faulty_uploads_are_told(upload: Upload, words: str) -> None:
    assert words in told(upload)


def test_a_name_is_declared_once() -> None:
    assert "upload text is declared 2 times" in told(GOOD, GOOD)


def test_a_declaration_without_uploads_reads_as_before() -> None:
    """Older declarations decode, and keep their digest."""
    without = with_upload()
    assert b"uploads" not in without.encoded
    assert with_upload(GOOD).digest != without.digest


def job_at(definition: Definition, status: str) -> Snapshot:
    workflow = definition.workflow
    kind = definition.states[status].kind
    return Snapshot("j", workflow.name, definition.digest, "near", "ada", status, kind, 1, 1, row=1)


def arrived(definition: Definition, job: Snapshot, name: str, sha256: str, actor: Actor) -> Any:
    asset = Asset(f"a-{sha256}", "text", f"/assets/a-{sha256}/content", "ada/j/x", 3, sha256)
    message = Arrived(actor, name, asset)
    return decide(definition, job, message, Facts(), Moment(5, id="fresh"))


def test_what_was_sent_in_is_no_result() -> None:
    """A file that came in is not what the job made: no guard and no end takes it for that."""
    definition = with_upload(replace(GOOD, mark="where"))
    said = arrived(definition, job_at(definition, "draft"), "text", "5ea1", ADA)
    assert isinstance(said, Decision), said
    after = said.after
    assert after.asset_url is None
    assert after.asset_types == {"text": 1}
    assert (after.value("a_text"), after.value("seal")) == ("/assets/a-5ea1/content", "5ea1")
    assert after.marks["where"] == "/assets/a-5ea1/content"
    ask = Ask(definition, after, Advance(), ADA, {}, Facts(), 5, target="done")
    missing = output_stored(ask, assets_only=True)
    assert missing is not None
    assert missing.code == "RESULT_MISSING"


def test_once_more_and_another() -> None:
    """The same bytes again change nothing; others are the newest file."""
    definition = with_upload(GOOD)
    first = arrived(definition, job_at(definition, "draft"), "text", "one", ADA)
    again = arrived(definition, first.after, "text", "one", ADA)
    assert isinstance(again, NoOp)
    assert again.answer["asset"]["id"] == "a-one"
    other = arrived(definition, first.after, "text", "two", ADMIN)
    assert other.after.artifacts["seal"].version == 2
    assert [record.event for record in other.audits] == ["job.upload"]


@pytest.mark.parametrize(
    ("actor", "status", "name", "code"),
    [
        (WORKER, "draft", "text", "FORBIDDEN"),
        (EVE, "draft", "text", "NOT_FOUND"),
        (ADA, "queued", "text", "JOB_LOCKED"),
        (ADA, "draft", "sound", "UNKNOWN_UPLOAD"),
    ],
)
def test_who_may_send_what_where(actor: Actor, status: str, name: str, code: str) -> None:
    """The same answer before the first byte, with it, and at the end."""
    definition = with_upload(GOOD)
    job = job_at(definition, status)
    before = admitted(definition, job, actor, name, "text/plain", 5)
    first = decide(definition, job, Arriving(actor, name), Facts(), Moment(5))
    last = arrived(definition, job, name, "one", actor)
    for refused in (before, first, last):
        assert isinstance(refused, Refused)
        assert refused.code == code
