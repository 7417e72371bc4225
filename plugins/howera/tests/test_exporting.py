"""Documents out of drafts: people's words are words, whatever they look like."""

import io
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
import typst
from jobrunner_howera import paper
from jobrunner_howera.exporting import export
from PIL import Image

from jobrunner.testing import run_stage
from plugins.howera.tests.lessons import judging

HOSTILE = [
    '#import "@preview/x"; #read("/etc/passwd")',
    "$ x^2 $ \\ \" ' ` ] } #{ <script>alert(1)</script>",
    "nul\x00 bell\x07 esc\x1b[31m line\u2028break \ud800",
    "漢字かな交じり文 한국어 👩‍👩‍👧 ﷽ עברית",
    "# heading\n---\n===\n1. one\n- item\n![x](http://127.0.0.1/a.png) &lt; | a | b |",
    "x" * 5000,
]


def picture(kind: str = "JPEG", mode: str = "RGB", colour: str = "black") -> bytes:
    held = io.BytesIO()
    Image.new(mode, (64, 48), colour).save(held, kind)
    return held.getvalue()


def exported(kind: str, draft: Any, assets: dict[str, tuple[str, bytes]] | None = None) -> Any:
    return run_stage(
        export,
        artifacts={"draft": draft, "export_request": {"format": kind, "version": None}},
        assets=assets or {},
    )


def content(tried: Any) -> bytes:
    assert tried.outcome == "done", tried.failure
    (asset,) = tried.assets
    assert tried.artifacts["export_uri"] == asset.url
    return bytes(tried.files[asset.url])


def markdown(tried: Any) -> str:
    return zipfile.ZipFile(io.BytesIO(content(tried))).read("instruction.md").decode()


def words_of(pdf: bytes, folder: Path) -> str:
    path = folder / "a.pdf"
    path.write_bytes(pdf)
    try:
        return subprocess.run(
            ("pdftotext", str(path), "-"), check=True, capture_output=True, text=True
        ).stdout
    except FileNotFoundError:
        pytest.skip("no pdftotext here")


@pytest.mark.parametrize("kind", ["PDF", "MD_ZIP"])
@pytest.mark.parametrize("text", HOSTILE)
def test_any_words_can_be_exported(kind: str, text: str) -> None:
    steps = [{"id": text, "title": text, "text": text, "start_s": 0, "end_s": 1, "image": text}]
    assert content(exported(kind, {"title": text, "steps": steps}))


def test_the_typesetter_reads_no_orders(tmp_path: Path) -> None:
    text = '#read("/etc/passwd") $x^2$ #{1+1} *bold* @ref <label>'
    pdf = content(exported("PDF", {"title": "T", "steps": [{"title": text, "text": text}]}))
    assert pdf.startswith(b"%PDF-")
    said = " ".join(words_of(pdf, tmp_path).split())
    assert said.count(text) == 2


def test_markdown_reads_no_orders() -> None:
    steps = [{"title": "**b** <i>", "text": "# not a heading\n---\n1. no list\n- a *list* item"}]
    said = markdown(exported("MD_ZIP", {"title": "[x](y)", "steps": steps}))
    assert "# \\[x\\](y)\n" in said
    assert "## 1. \\*\\*b\\*\\* \\<i\\>\n" in said
    assert "\\# not a heading\n\\---\n1\\. no list\n- a \\*list\\* item\n" in said


@pytest.mark.parametrize(
    "draft",
    [
        "one text,\nand its second line", {}, {"steps": None}, {"steps": 7}, {"steps": ["x", None]},
        {"title": None, "steps": [{}]}, {"title": [1], "steps": [{"text": {"a": 1}, "image": 5}]},
        {"steps": [{"title": "t", "start_s": True, "end_s": "x"}]},
        {"steps": [{"title": "t", "start_s": 1e300, "end_s": -5}]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["PDF", "MD_ZIP"])
def test_a_draft_that_a_person_bent(kind: str, draft: Any) -> None:
    """People may save what they like; it is exported as far as it can be understood."""
    assert content(exported(kind, draft))


def test_pictures_come_along() -> None:
    assets = {
        "a": ("frame", picture()),
        "b": ("frame", picture("WEBP")),
        "c": ("frame", picture("PNG", "RGBA")),
    }
    steps = [{"title": name, "text": "x", "image": f"/assets/{name}/content"} for name in "abca"]
    held = zipfile.ZipFile(io.BytesIO(content(exported("MD_ZIP", {"steps": steps}, assets))))
    names = sorted(name for name in held.namelist() if name.startswith("images/"))
    assert names == ["images/picture-001.jpg", "images/picture-002.png", "images/picture-003.png"]
    assert held.read("instruction.md").decode().count("](images/") == 4
    pdf = content(exported("PDF", {"steps": steps}, assets))
    assert pdf.count(b"/Subtype /Image") + pdf.count(b"/Subtype/Image") >= 3


@pytest.mark.parametrize("kind", ["PDF", "MD_ZIP"])
def test_all_pictures_of_a_step_come_along(kind: str) -> None:
    """Those that a person bent are passed over."""
    colours = {"a": "#a02020", "b": "#20a020", "c": "#2020a0", "d": "#a0a020"}
    assets = {name: ("frame", picture(colour=colour)) for name, colour in colours.items()}
    address = {name: f"/assets/{name}/content" for name in assets}
    further = [address["b"], 7, None, "", address["c"], address["d"]]
    steps = [{"text": "x", "image": address["a"], "images": further}, {"images": {"a": 1}}]
    made = content(exported(kind, {"steps": steps}, assets))
    if kind == "PDF":
        assert made.count(b"/Subtype /Image") + made.count(b"/Subtype/Image") == 4
    else:
        names = zipfile.ZipFile(io.BytesIO(made)).namelist()
        assert sum(name.startswith("images/") for name in names) == 4


def test_pictures_that_are_none_are_left_out_and_named() -> None:
    assets = {"html": ("frame", b"<html>Sorry</html>"), "cut": ("frame", picture()[:80])}
    steps = [{"text": "x", "image": f"/assets/{name}/content"} for name in ("html", "cut", "gone")]
    tried = exported("PDF", {"steps": steps}, assets)
    assert content(tried)
    assert sum("left out" in line for line in tried.log) == 3


def test_addresses_elsewhere_are_not_asked_for() -> None:
    steps = [{"text": "x", "image": "http://169.254.169.254/a.png"}, {"image": "../../etc/passwd"}]
    assert content(exported("PDF", {"steps": steps}))


def test_the_same_draft_is_the_same_bundle() -> None:
    draft = {"title": "T", "steps": [{"title": "a", "text": "b"}]}
    assert content(exported("MD_ZIP", draft)) == content(exported("MD_ZIP", draft))


def test_no_draft_no_document() -> None:
    assert exported("PDF", None).failure.code == "DRAFT_MISSING"


def test_several_formats_are_one_export() -> None:
    tried = exported(["MD_ZIP", "PDF"], {"title": "How to peel an egg", "steps": [{"text": "x"}]})
    assert tried.outcome == "done", tried.failure
    stored = tried.artifacts["exports"]
    assert list(stored) == ["MD_ZIP", "PDF"]
    assert tried.artifacts["export_uri"] == stored["MD_ZIP"]
    assert tried.files[stored["PDF"]].startswith(b"%PDF-")
    assert zipfile.is_zipfile(io.BytesIO(tried.files[stored["MD_ZIP"]]))


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("How to peel an egg", "how-to-peel-an-egg"), ("Ärger: naïve/../etc", "arger-naive-etc"),
        ("漢字", "instruction"), ("", "instruction"), (None, "instruction"), (["x"], "x"),
        ("x" * 500, "x" * 60), ("word " * 50, "-".join(["word"] * 12)),
    ],
)  # fmt: skip
def test_the_file_is_called_as_the_instruction_is(title: Any, name: str) -> None:
    (asset,) = exported("PDF", {"title": title, "steps": [{"text": "x"}]}).assets
    assert asset.storage_path.endswith(f"/{name}.pdf")


def test_the_document_says_what_it_is() -> None:
    draft = {"title": "How to (peel) an egg", "language": "de", "steps": [{"title": "Peel it"}]}
    pdf = content(exported("PDF", draft))
    for told in (b"How to (peel) an egg</rdf:li>", b"Peel it</rdf:li>", b"<rdf:li>de</rdf:li>"):
        assert told in pdf


@pytest.mark.parametrize("count", [4, 5, 6, 7, 9, 12])
def test_little_of_the_paper_is_left_unused(tmp_path: Path, count: int) -> None:
    """Measured on the pages as they are drawn."""
    path = tmp_path / "a.jpg"
    path.write_bytes(picture())
    step = {"title": "Peel it", "text": "Take the egg and peel it. " * 6, "image": "/assets/a"}
    paper.document({"steps": [step] * count}, {"/assets/a": str(path)}, str(tmp_path))
    pages = typst.compile(
        str(tmp_path / "instruction.typ"), root=str(tmp_path), format="png", ppi=36.0
    )
    shares = [judging.empty(page) for page in (pages if isinstance(pages, list) else [pages])]
    assert sum(shares) / len(shares) <= 0.3
    assert max(shares[:-1], default=0) <= 0.2
