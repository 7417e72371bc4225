"""A workflow of a single stage, declared from the stage."""

import pytest
from msgspec import Struct

from jobrunner import Context, Done, Partial, Rejected, RetryableFailure, one_stage, stage
from jobrunner.check.checking import check
from jobrunner.testing import prove


class Speech(Struct, frozen=True, forbid_unknown_fields=True):
    text: str = "aloud"


@stage("shout.aloud")
async def aloud(ctx: Context[Speech]) -> Done | Partial:
    """Ends in every way, by the job."""
    last = int(ctx.job_id[-1], 16) % 4
    if last == 0 and ctx.attempt == 1:
        raise RetryableFailure("BUSY", "not yet")
    if last == 1:
        raise Rejected("SAFE_BLOCK", "not so loud")
    if last == 2:
        return Partial("the end is missing")
    return Done(result=ctx.params.text.upper())


@pytest.mark.parametrize("price", [0, 3])
def test_it_passes_the_check_and_the_proof(price: int) -> None:
    definition = one_stage(aloud, Speech, price=price)
    assert definition.workflow.name == "shout"
    assert not check(definition)
    proof = prove(definition, [aloud], seeds=range(12))
    assert {"done", "partial", "rejected"} <= proof.jobs.keys()
    assert proof.ended["shout.aloud"].keys() >= {"done", "partial", "rejected", "BUSY"}


def test_its_options_are_those_of_the_state() -> None:
    definition = one_stage(
        aloud, Speech, name="whisper", version="2", limit_s=5, wait_s=60, tries=7, pause_s=0.5
    )
    working = definition.states["working"]
    assert (definition.workflow.name, definition.workflow.version) == ("whisper", "2")
    assert working.retry is not None
    assert working.deadline is not None
    assert (working.limit_s, working.deadline.after_s) == (5, 60)
    assert (working.retry.max, working.retry.base_s) == (7, 0.5)
