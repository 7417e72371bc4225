"""Both drawings tell every declared pair, and the picture is one that can be read."""

import re
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from jobrunner.core.declaration.workflow import Edge, State, Workflow
from jobrunner.drawing.layout import BoxLink, Layout, Size, layered
from jobrunner.drawing.mermaid import mermaid
from jobrunner.drawing.svg import svg
from tests.core.declared import EDGES, OPEN, SAMPLE, STATES, define

FINAL = [state.name for state in STATES if state.kind == "final"]
KEPT = tuple(edge for edge in EDGES if edge.target != "canceled")
WILD = replace(SAMPLE, edges=(*KEPT, Edge("*", "canceled", by=("user",), money="release")))
SVG = "{http://www.w3.org/2000/svg}"


def drawn(workflow: Workflow) -> ET.Element:
    return ET.fromstring(svg(workflow))


def texts(workflow: Workflow) -> list[str]:
    return [element.text or "" for element in drawn(workflow).iter(f"{SVG}text")]


# ---------------------------------------------------------------- mermaid


@pytest.mark.parametrize("workflow", [SAMPLE, WILD], ids=["plain", "wildcard"])
def test_mermaid_draws_every_pair_once(workflow: Workflow) -> None:
    arrows = re.findall(r"^    (\w+) --> (\w+)", mermaid(workflow), re.MULTILINE)
    table = define(workflow).table
    pairs = [(source, target) for source in table for target in table[source]]
    assert sorted(arrows) == sorted(pairs)


def test_mermaid_tells_triggers_guards_and_money() -> None:
    lines = mermaid(SAMPLE).splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert "    [*] --> draft" in lines
    assert "    draft --> queued : user · money hold" in lines
    guarded = "engine, workflow · if allowed, else rejected"
    assert f"    queued --> running : {guarded}" in lines
    assert [line for line in lines if line.endswith("--> [*]")] == [
        f"    {name} --> [*]" for name in FINAL
    ]
    assert "    class running,checking active" in lines


def test_mermaid_labels_have_no_second_colon() -> None:
    """It would end the label."""
    arrows = [line for line in mermaid(WILD).splitlines() if "-->" in line]
    assert max(line.count(":") for line in arrows) == 1


def test_mermaid_tells_a_move_from_many_states_once() -> None:
    lines = mermaid(WILD).splitlines()
    assert "    resting --> canceled" in lines
    note = lines.index("    note right of canceled")
    assert "resting" in lines[note + 1]
    assert lines[note + 2].strip() == "user · money release"


def test_mermaid_names_are_made_fit() -> None:
    odd = (State("end", "queued"), State("re-try", "final"))
    workflow = Workflow("odd", "1", "end", odd, (Edge("end", "re-try", by=("user",)),), ())
    assert '    state "re-try" as re_try' in mermaid(workflow)
    assert "    end_ --> re_try : user" in mermaid(workflow)


# ---------------------------------------------------------------- svg


def test_the_picture_stands_alone() -> None:
    picture = svg(SAMPLE)
    assert drawn(SAMPLE).tag == f"{SVG}svg"
    assert picture.count("http") == 1
    assert not re.search(r"<(script|image|use|style|foreignObject)|@import|href", picture)


@pytest.mark.parametrize("workflow", [SAMPLE, WILD], ids=["plain", "wildcard"])
def test_the_picture_names_every_state_and_label(workflow: Workflow) -> None:
    bold = [text for text in drawn(workflow).iter(f"{SVG}text") if text.get("font-weight")]
    assert sorted(text.text or "" for text in bold) == sorted(s.name for s in workflow.states)
    told = texts(workflow)
    assert "if allowed, else rejected" in told
    assert "money: capture" in told
    assert "↻ stage, timer" in told


def test_the_picture_draws_each_pair_or_bundle() -> None:
    """One line for the birth, one a pair; a wildcard's many are one dashed line."""
    plain = [e for e in EDGES if e.target not in (e.source, "canceled")]
    lines = [path for path in drawn(WILD).iter(f"{SVG}path") if path.get("marker-end")]
    assert len(lines) == 1 + len(plain) + 1
    assert len([line for line in lines if line.get("stroke-dasharray")]) == 1
    assert "from every state" in texts(WILD)


def test_many_but_not_all_states_are_listed() -> None:
    assert "from each of" in texts(SAMPLE)
    assert any(", ".join(OPEN[:3]) in text for text in texts(SAMPLE))


def test_final_states_have_a_double_border() -> None:
    rectangles = [element.get("stroke") for element in drawn(SAMPLE).iter(f"{SVG}rect")]
    assert rectangles.count("#5f6368") == 2 * len(FINAL)


def test_names_are_escaped() -> None:
    states = (State("a<b", "queued"), State("c&d", "final"))
    workflow = Workflow("odd", "1", "a<b", states, (Edge("a<b", "c&d", by=("user",)),), ())
    assert {"a<b", "c&d"} <= set(texts(workflow))


def test_the_same_declaration_gives_the_same_picture() -> None:
    assert svg(SAMPLE) == svg(define(SAMPLE).workflow)


# ---------------------------------------------------------------- layout


def layout_of(pairs: list[tuple[str, str]]) -> tuple[dict[str, Size], Layout]:
    boxes = {name: Size(80, 40) for pair in pairs for name in pair}
    return boxes, layered(boxes, [BoxLink(a, b, Size(60, 20)) for a, b in pairs])


CIRCLE = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "d"), ("b", "d"), ("d", "e"), ("a", "e")]


def test_boxes_stand_below_what_leads_to_them() -> None:
    _, layout = layout_of(CIRCLE)
    spots = layout.spots
    assert spots["a"][1] < spots["b"][1] < spots["c"][1]
    assert spots["d"][1] > spots["b"][1]
    assert spots["e"][1] > spots["d"][1]


def test_nothing_lies_on_anything() -> None:
    boxes, layout = layout_of(CIRCLE)
    things = [(spot, boxes[name]) for name, spot in layout.spots.items()]
    things += [(spot, Size(60, 20)) for spot in layout.labels]
    for ((x, y), one), ((u, v), other) in combinations(things, 2):
        beside = abs(x - u) >= (one.width + other.width) / 2
        above = abs(y - v) >= (one.height + other.height) / 2
        assert beside or above


def test_lines_run_from_box_to_box_as_the_arrow_points() -> None:
    boxes, layout = layout_of(CIRCLE)
    for (source, target), route in zip(CIRCLE, layout.routes, strict=True):
        for name, (x, y) in ((source, route[0]), (target, route[-1])):
            assert abs(x - layout.spots[name][0]) <= boxes[name].width / 2
            assert abs(y - layout.spots[name][1]) == pytest.approx(boxes[name].height / 2)


def test_everything_lies_on_the_page() -> None:
    boxes, layout = layout_of(CIRCLE)
    for name, (x, y) in layout.spots.items():
        assert boxes[name].width / 2 <= x <= layout.size.width - boxes[name].width / 2
        assert boxes[name].height / 2 <= y <= layout.size.height - boxes[name].height / 2


def test_a_lone_box_is_drawn_too() -> None:
    layout = layered({"a": Size(10, 10)}, [])
    assert layout.spots == {"a": (5, 5)}
