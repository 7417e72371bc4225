"""Whatever breaks on the way: nothing is done twice, nothing is lost, nothing begins anew."""

import hashlib
import io
import os
from typing import Any

import pytest

from jobrunner.client import InConflict, JobEvent, Unanswered
from jobrunner.client.talks import remote
from jobrunner.errors import Unreachable
from tests.client.relay import Cut, Relay

DATA = os.urandom(3_000_000)
PIECE = 1_000_000


def test_an_answer_that_is_lost_costs_no_second_job(far: Any, relay: Relay) -> None:
    relay.cuts += [Cut(told=0), Cut(told=20)]
    label = {"of": os.urandom(8).hex()}
    made = far.submit("hello", labels=label)
    assert made.replayed
    assert relay.connections == 3
    assert [one.id for one in far.jobs(labels=label)] == [made.id]


def test_a_claim_whose_answer_is_lost_is_given_again(client: Any, far: Any, relay: Relay) -> None:
    made = client.submit("asset-pattern", job_type="generation")
    relay.cuts += [Cut(told=0), Cut(told=20)]
    (claimed,) = far.hold(remote.claims("asset-pattern"))
    assert relay.connections == 3
    assert claimed.job.id == made.id
    assert claimed.job.attempt == 1, "no loss, and nobody waited for the lease"


def test_a_command_is_not_given_twice(client: Any, far: Any, relay: Relay) -> None:
    """It has no key, so whether it was heard is for the caller to find out."""
    job = client.submit("howera", {})
    relay.cuts += [Cut(told=0)]
    with pytest.raises(Unanswered):
        far.cancel(job.id)
    assert relay.connections == 1
    assert client.wait(job.id, timeout_s=10).status == "CANCELLED"


def test_a_command_that_says_which_version_it_means_is(client: Any, far: Any, relay: Relay) -> None:
    job = client.submit("howera", {})
    relay.cuts += [Cut(told=0)]
    with pytest.raises(InConflict) as refused:
        far.cancel(job.id, expected_version=job.version)
    assert refused.value.code in ("JOB_VERSION_CONFLICT", "TERMINAL_STATE")
    assert relay.connections == 2


def test_nobody_there_is_waited_for_and_then_said(far: Any, relay: Relay) -> None:
    relay.close()
    with pytest.raises(Unreachable, match="is it running"):
        far.workflows()


def test_an_upload_goes_on_where_it_stood(far: Any, relay: Relay) -> None:
    relay.cuts += [Cut(sent=1_400_000), Cut(sent=700_000), Cut(told=50)]
    seen: list[tuple[int, int]] = []
    file = far.upload(DATA, name="a.bin", piece=PIECE, on_progress=lambda *far: seen.append(far))
    assert file.sha256 == hashlib.sha256(DATA).hexdigest()
    assert seen == sorted(seen), "it never goes back"
    assert seen[-1] == (len(DATA), len(DATA))
    assert any(done % PIECE for done, _ in seen[:-1]), "what came of a broken piece is kept"


def test_an_upload_goes_on_in_another_program(client: Any, far: Any, relay: Relay) -> None:
    begun: list[str] = []

    def breaks(done: int, size: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        far.upload(DATA, piece=PIECE, on_begun=begun.append, on_progress=breaks)
    seen: list[int] = []
    file = client.upload(
        io.BytesIO(DATA),
        piece=PIECE,
        resume=begun[0],
        on_progress=lambda done, _: seen.append(done),
    )
    assert seen[0] == PIECE
    assert file.sha256 == hashlib.sha256(DATA).hexdigest()


def test_a_download_goes_on_where_it_stood(client: Any, far: Any, relay: Relay) -> None:
    file = client.upload_at_once(DATA, name="b.bin")
    relay.cuts += [Cut(told=1_000_000), Cut(told=1_000_000)]
    into = io.BytesIO()
    seen: list[int] = []
    assert far.download(file.id, into, on_progress=lambda done, _: seen.append(done)) == len(DATA)
    assert into.getvalue() == DATA
    assert seen == sorted(seen)


def test_a_stream_goes_on_behind_what_it_told(client: Any, far: Any, relay: Relay) -> None:
    job = client.submit("howera", {})
    events = far.events(job.id, after="0")
    told: list[JobEvent] = []
    while not any(one.kind == "progress" for one in told):
        told.append(next(events))
    relay.break_all()
    client.cancel(job.id)
    told += events
    moves = [one.moved for one in told if one.moved]
    versions = [move.version for move in moves]
    assert versions == list(range(1, versions[-1] + 1)), "each once, none left out"
    assert moves[-1].status == "CANCELLED"
    assert told[-1].kind == "settled"
    assert told[-1].job is not None
    assert told[-1].job.ended_as == "canceled"


def test_a_stream_that_was_heard_before_says_nothing_again(client: Any) -> None:
    job = client.submit("hello", wait_s=20)
    told = list(client.events(job.id, after="0"))
    assert told[-1].kind == "settled"
    assert list(client.events(job.id, after=told[-1].id)) == []
