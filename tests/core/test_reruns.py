"""What a job that is done again gets along, read off a declaration that leads back to itself."""

import pytest

from jobrunner.core.declaration.workflow import Definition, Edge, JobType, State, Workflow
from jobrunner.core.features.reruns import carried, moved, named_in
from jobrunner.core.job import Artifact, Asset, Snapshot

HERE = "/assets/{}/content"


def _stage(name: str, done: str, makes: str) -> State:
    return State(name, "active", {"*": "external"}, done=done, produces=makes, along=("note",))


LOOP = Definition(
    Workflow(
        name="loop",
        version="1",
        initial="wanted",
        states=(
            State("wanted", "waiting"),
            _stage("drawn", "seen", "sketch"),
            State("seen", "waiting"),
            _stage("printed", "shown", "print"),
            State("shown", "waiting"),
            State("kept", "final"),
        ),
        edges=(
            Edge("wanted", "drawn", by=("user",)),
            Edge("seen", "printed", by=("user",)),
            Edge("seen", "wanted", by=("user",)),
            Edge("shown", "kept", by=("user",)),
        ),
        job_types=(JobType("page", params="page"),),
    ),
    structs={},
)
NOTE = {"pictures": [HERE.format("p"), {"deep": HERE.format("q")}, "/assets/other/content"]}
MADE = {
    "sketch": Artifact("sketch", 1, HERE.format("s"), 1, asset="s"),
    "print": Artifact("print", 1, HERE.format("t"), 1, asset="t"),
    "note": Artifact("note", 3, NOTE, 1),
}
JOB = Snapshot("j", "loop", "d", "page", "ada", "kept", "final", 1, 1, artifacts=MADE)


@pytest.mark.parametrize(
    ("place", "names"),
    [
        ("wanted", []),
        ("drawn", []),
        ("seen", ["note", "sketch"]),
        ("printed", ["note", "sketch"]),
        ("shown", ["note", "sketch", "print"]),
        ("kept", ["note", "sketch", "print"]),
    ],
)
def test_before_is_what_leads_here_and_not_back(place: str, names: list[str]) -> None:
    assert [one.name for one in carried(LOOP, JOB, place, {"s", "t"})] == names


def test_what_goes_along_stays_behind_with_its_product() -> None:
    assert [one.name for one in carried(LOOP, JOB, "kept", {"t"})] == ["note", "print"]
    assert carried(LOOP, JOB, "kept", ()) == []


def test_the_files_that_a_value_names_get_new_addresses_in_it() -> None:
    assets = {
        HERE.format(name): Asset(name, "frame", HERE.format(name), f"ada/j/{name}.png")
        for name in "pqs"
    }
    named = named_in(MADE["note"], assets)
    assert [asset.id for asset in named] == ["p", "q"]
    assert [asset.id for asset in named_in(MADE["sketch"], assets)] == ["s"]
    fresh = [(asset, asset.id * 2) for asset in named]
    (note,), files = moved(JOB, "", [MADE["note"]], fresh, 9)
    assert note.value == {
        "pictures": [HERE.format("pp"), {"deep": HERE.format("qq")}, "/assets/other/content"]
    }
    assert (note.version, note.created_at) == (1, 9)
    assert [(one.id, one.url, one.storage_path) for one in files] == [
        ("pp", HERE.format("pp"), "ada/j/p.png"),
        ("qq", HERE.format("qq"), "ada/j/q-2.png"),
    ]
