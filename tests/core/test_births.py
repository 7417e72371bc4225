"""What a submission has to know before it becomes a job."""

from hashlib import sha256
from typing import Any

import pytest
from jobrunner_cutx import definition as cutx
from jobrunner_howera import definition as howera
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.births import keys_of, needs_facts
from jobrunner.core.decision import Decision, KeyRow
from jobrunner.core.declaration.workflow import Call, Definition, Guard, Quota, Recipe
from jobrunner.core.job import Actor
from jobrunner.core.messages import Submit
from tests.driving import ADMIN, World, code, outside

KEY = KeyRow("digest", "body", "key")


def declared(definition: Definition, **changes: Any) -> Definition:
    changed = replace(definition.workflow, **changes)
    return Definition(changed, definition.functions, definition.structs, definition.digest)


def submit(job_type: str) -> Submit:
    return Submit(Actor("ada", "user"), "a workflow", job_type, {}, "job")


def test_nothing_is_looked_up_for_who_depends_on_nothing() -> None:
    job_type = next(iter(howera.job_types))
    assert not needs_facts(howera, submit(job_type), (None, None))


@pytest.mark.parametrize("keys", [(KEY, None), (None, KEY)])
def test_a_key_is_looked_up(keys: tuple[KeyRow | None, ...]) -> None:
    assert needs_facts(howera, submit(next(iter(howera.job_types))), keys)


def test_a_short_key_is_kept_as_it_is_and_a_long_one_under_its_digest() -> None:
    """Keys that are given in order are then stored in order."""
    job_type = next(iter(howera.job_types))
    long = "order" * 20
    hashed = sha256(f'["client","{long}"]'.encode()).hexdigest()
    for key, kept in (("order-1", '["client","order-1"]'), (long, hashed)):
        client, derived = keys_of(None, replace(submit(job_type), key=key))
        assert client is not None
        assert (client.digest, client.parts, derived) == (kept, key, None)


def test_who_pays_is_looked_up() -> None:
    price = cutx.job_types["static_ad"].price
    assert price
    assert needs_facts(cutx, submit("static_ad"), (None, None))


@pytest.mark.parametrize("quota", [Quota(open_jobs=1), Quota(per_minute=1), Quota(per_day=1)])
def test_a_quota_is_looked_up(quota: Quota) -> None:
    limited = declared(howera, quota=quota)
    assert needs_facts(limited, submit(next(iter(howera.job_types))), (None, None))


def test_a_guard_may_look_at_anything() -> None:
    birth = replace(howera.workflow.birth, guards=(Guard(Call("stranger.guard")),))
    guarded = declared(howera, birth=birth)
    assert needs_facts(guarded, submit(next(iter(howera.job_types))), (None, None))


def test_a_key_whose_job_has_ended_for_good_is_simply_free() -> None:
    """Nothing is left to do for that job, so the recipe needs to say no way to its end."""
    once = declared(outside(howera), recipe=Recipe(client="only", freed=("CANCELLED",)))
    assert check(once) == ()
    world = World(once)
    first = world.born(key="k")
    assert code(world.submit(key="k")) == "replayed"
    assert code(world.move(first, "CANCELLED", ADMIN)) == "moved"
    before = world.jobs[first]
    said = world.submit(key="k")
    assert isinstance(said, Decision)
    assert said.after.id != first
    assert said.also == ()
    assert world.jobs[first] is before
    assert code(world.submit(key="k")) == "replayed"
