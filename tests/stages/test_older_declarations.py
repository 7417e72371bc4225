"""Declarations that jobs were born under, as a later start finds them."""

import msgspec
from jobrunner_hello import definition, greet
from msgspec.structs import replace

from jobrunner import Definition, Workflow
from jobrunner.stages import Registry

HELLO = definition.workflow


def registry() -> Registry:
    made = Registry()
    made.add(greet)
    made.add(definition)
    assert not made.refused["workflows"]
    return made


def older(**changes: object) -> tuple[str, str, bytes]:
    workflow = replace(HELLO, version="0", **changes)
    return HELLO.name, f"digest-of-{workflow.version}", Definition(workflow).encoded


def test_an_older_one_is_served() -> None:
    made = registry()
    made.remember([older()])
    assert not made.outdated
    assert made._pinned["digest-of-0"].workflow.version == "0"


def test_one_that_is_not_understood_stops_nothing() -> None:
    made = registry()
    made.remember([(HELLO.name, "strange", b'{"name": 7}')])
    assert "not understood" in made.outdated["hello", "strange"][0]
    assert made.current("hello") is not None


def test_one_whose_struct_is_gone_says_so() -> None:
    """What needs it waits; the declaration itself is there, for whoever wants to read or cancel."""
    made = registry()
    job_types = tuple(replace(one, params="gone") for one in HELLO.job_types)
    made.remember([older(job_types=job_types)])
    assert made.outdated["hello", "digest-of-0"] == ("struct gone",)
    assert made._pinned["digest-of-0"].workflow.job_types[0].params == "gone"


def test_one_of_another_time_is_read_as_far_as_it_goes() -> None:
    """Fields that are not known any more, a binding that today would be a fault."""
    made = registry()
    stored = msgspec.json.decode(definition.encoded)
    for state in stored["states"]:
        state["colour"] = "red"
        state.pop("stage", None)
    stored["shape"] = {"round": True}
    stored["edges"][0]["guards"] = [{"call": {"name": "lost", "tone": 1}, "mood": 2}]
    made.remember([(HELLO.name, "of-old", msgspec.json.encode(stored))])
    assert made.outdated["hello", "of-old"] == ("lost",)
    assert made._pinned["of-old"].stage_of("greeting", "hello") == "external"


def test_the_encoding_of_a_declaration_is_read_back() -> None:
    assert msgspec.json.decode(definition.encoded, type=Workflow, strict=False) == HELLO


def test_what_was_renamed_is_found_by_the_name_that_it_had() -> None:
    """A stage, a function and a struct: nothing is absent, and nothing has to be moved for it."""
    stored = msgspec.json.decode(definition.encoded)
    for state in stored["states"]:
        state.pop("stage", None)
        if state["name"] == "greeting":
            state["stage"] = {"*": "hello.wave"}
    stored["edges"][0]["guards"] = [{"call": {"name": "lost"}}]
    stored["job_types"][0]["params"] = "gone"
    data = [(HELLO.name, "of-old", msgspec.json.encode(stored))]
    functions = {**definition.functions, "found": lambda ask: None}
    was = {"lost": "found", "gone": HELLO.job_types[0].params}
    plain, knowing = Registry(), Registry()
    plain.add(greet)
    plain.add(definition)
    knowing.add(replace(greet, was=("hello.wave",)))
    knowing.add(Definition(HELLO, functions, definition.structs, "", definition.settings, was))
    for made, absent in ((plain, ("lost", "stage hello.wave", "struct gone")), (knowing, None)):
        assert not made.refused["workflows"]
        made.remember(data)
        assert made.outdated.get((HELLO.name, "of-old")) == absent
    assert knowing.stage("hello.wave") is knowing.stage(greet.name)
    older_ = knowing.pinned("of-old")
    assert older_ is not None
    assert older_.stage_of("greeting", "hello") == greet.name


def test_a_former_name_that_leads_nowhere_is_a_fault() -> None:
    made = Registry()
    made.add(greet)
    made.add(Definition(HELLO, definition.functions, definition.structs, was={"a": "b"}))
    (reason,) = made.refused["workflows"]["hello"]
    assert "was['a'] leads to 'b', and there is neither function nor struct" in reason
