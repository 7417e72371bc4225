"""Webhooks and the attempts that await them: whichever comes first waits for the other, and none
has an effect twice, in whatever order they come."""

import random

import msgspec
import pytest
from msgspec.structs import replace

from jobrunner.core.decide import needs
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.facts import Awaited, Facts, KeptWebhook, WebhookFacts
from jobrunner.core.features.webhooks import KEPT_MS, name_of, place
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.messages import Ended, Message, Told
from jobrunner.core.units import StoreWebhook, WebhookRow
from tests.core.workshop import WORKSHOP, cutting
from tests.driving import World, varied

SOURCE = "provider"
Kept = tuple[int, str, object, int]


class Post(World):
    """The world of the other tests, with what a store knows about webhooks."""

    def __init__(self) -> None:
        super().__init__(varied(WORKSHOP))
        self.awaits: dict[str, tuple[str, bool]] = {}
        self.heard: dict[str, WebhookRow] = {}
        self.kept: dict[int, Kept] = {}

    def hear(self, webhook_id: str, key: str, value: object = None) -> tuple[bool, str]:
        """What its source is answered: applied, or why not."""
        message = Told(SOURCE, webhook_id, key, value)
        placed = place(message, self.known(webhook_id, name_of(SOURCE, key)), self.now)
        if placed is None:
            return False, "replayed"
        if isinstance(placed, StoreWebhook):
            self.store(placed)
            return False, placed.webhook.reason
        said = self.tell(placed, message)
        assert isinstance(said, Decision), said
        return True, ""

    def store(self, unit: StoreWebhook) -> None:
        row = unit.webhook
        assert row.webhook_id not in self.heard, "an id is stored once"
        self.heard[row.webhook_id] = row
        if unit.value is not msgspec.UNSET:
            self.kept[len(self.heard)] = (len(self.heard), row.name, unit.value, row.at)

    def known(self, webhook_id: str, name: str) -> WebhookFacts:
        fresh = [one for one in self.kept.values() if one[1] == name and one[3] >= self.since]
        awaited = self.awaits.get(name)
        return WebhookFacts(
            webhook_id in self.heard,
            Awaited(awaited[0] if awaited[0] in self.jobs else None, awaited[1])
            if awaited
            else None,
            KeptWebhook(fresh[0][0], fresh[0][2]) if fresh else None,
        )

    @property
    def since(self) -> int:
        return self.now - KEPT_MS

    def _facts(self, job: Snapshot, message: Message) -> Facts:
        facts = super()._facts(job, message)
        wanted = needs(self.definition, job, message).webhook
        if wanted is None:
            return facts
        return replace(facts, webhook=self.known(wanted[1], wanted[2]))

    def _write(self, said: Decision) -> None:
        super()._write(said)
        if said.webhook is not None:
            assert said.webhook.webhook_id not in self.heard, "an id is stored once"
            self.heard[said.webhook.webhook_id] = said.webhook
        if said.handed is not None:
            self.kept.pop(said.handed.row)
            self.awaits[said.handed.name] = (said.after.id, False)
        for job in (said.before, said.after):
            attempt = job.attempt if job else None
            if attempt is not None and attempt.status == "parked" and attempt.source:
                self.awaits[attempt.awaits] = (said.after.id, job is said.after)


def attempt_of(world: World, job_id: str) -> Attempt:
    attempt = world.jobs[job_id].attempt
    assert attempt is not None
    return attempt


def park(world: World, job_id: str, key: str = "k", await_s: float = 60) -> None:
    name = name_of(SOURCE, key)
    serial = attempt_of(world, job_id).serial
    parked = Ended(serial, "parked", awaits=name, await_s=await_s, source=SOURCE)
    said = world.tell(job_id, parked)
    assert isinstance(said, Decision), said


def test_a_webhook_takes_the_attempt_on_that_awaits_it() -> None:
    """I-r11 C12: one effect, and the answer is the attempt's."""
    post = Post()
    job_id = cutting(post)
    park(post, job_id)
    assert attempt_of(post, job_id).source == SOURCE
    assert post.hear("w-1", "k", {"url": "x"}) == (True, "")
    attempt = attempt_of(post, job_id)
    assert (attempt.status, attempt.awaits, attempt.source) == ("due", "", "")
    assert attempt.answers == {"provider:k": {"url": "x"}}
    assert post.jobs[job_id].timer("deadline") is None
    row = post.heard["w-1"]
    assert row == WebhookRow(SOURCE, "w-1", "provider:k", row.at, applied=True)


def test_the_same_webhook_again_has_no_effect() -> None:
    post = Post()
    job_id = cutting(post)
    park(post, job_id)
    assert post.hear("w-1", "k", 1) == (True, "")
    writes = post.writes
    assert post.hear("w-1", "k", 2) == (False, "replayed")
    again = post.tell(job_id, Told(SOURCE, "w-1", "k", 2))
    assert isinstance(again, NoOp)
    assert again.name == "replayed"
    assert (post.writes, attempt_of(post, job_id).answers) == (writes, {"provider:k": 1})


def test_another_webhook_of_the_same_key_comes_too_late() -> None:
    post = Post()
    job_id = cutting(post)
    park(post, job_id)
    post.hear("w-1", "k", 1)
    assert post.hear("w-2", "k", 2) == (False, "over")
    assert attempt_of(post, job_id).answers == {"provider:k": 1}


def test_a_webhook_that_comes_first_is_handed_over_by_the_commit_that_parks() -> None:
    """C-r11: it came before the id of the work was stored."""
    post = Post()
    job_id = cutting(post)
    assert post.hear("w-1", "k", {"url": "x"}) == (False, "kept")
    assert post.hear("w-1", "k", {"url": "x"}) == (False, "replayed")
    park(post, job_id)
    attempt = attempt_of(post, job_id)
    assert (attempt.status, attempt.answers) == ("due", {"provider:k": {"url": "x"}})
    assert post.kept == {}
    assert post.hear("w-1", "k", {"url": "x"}) == (False, "replayed")
    assert post.hear("w-2", "k") == (False, "over")


def test_one_is_kept_for_an_hour() -> None:
    post = Post()
    job_id = cutting(post)
    post.hear("w-1", "k", 1)
    post.now += KEPT_MS + 1
    park(post, job_id)
    assert attempt_of(post, job_id).status == "parked"


def test_after_the_deadline_it_comes_too_late() -> None:
    post = Post()
    job_id = cutting(post)
    park(post, job_id, await_s=5)
    post.fire(job_id, "deadline")
    before = post.jobs[job_id]
    assert post.hear("w-1", "k") == (False, "over")
    assert post.jobs[job_id] == before


def test_one_for_an_earlier_attempt_is_not_for_the_next() -> None:
    post = Post()
    job_id = cutting(post)
    park(post, job_id, "first", await_s=5)
    post.fire(job_id, "deadline")
    post.fire(job_id, "retry")
    post.start(job_id)
    park(post, job_id, "second")
    assert post.hear("w-1", "first") == (False, "over")
    assert attempt_of(post, job_id).status == "parked"
    assert post.hear("w-2", "second") == (True, "")


def test_a_canceled_job_hears_nothing() -> None:
    post = Post()
    job_id = cutting(post)
    park(post, job_id)
    post.do(job_id, "cancel")
    assert post.jobs[job_id].status == "canceled"
    assert post.hear("w-1", "k") == (False, "over")


def test_a_deleted_job_hears_nothing() -> None:
    post = Post()
    job_id = cutting(post)
    park(post, job_id)
    post.do(job_id, "cancel")
    del post.jobs[job_id]
    assert post.hear("w-1", "k") == (False, "gone")


def test_a_key_is_for_one_job() -> None:
    """The one that comes second fails for good, and the first one is not disturbed."""
    post = Post()
    first, second = cutting(post), born_elsewhere(post)
    park(post, first)
    park(post, second)
    failed = post.tried(second)[-1]
    assert failed.failure is not None
    assert (failed.failure.code, failed.failure.retryable) == ("CALLBACK_KEY_TAKEN", False)
    assert post.hear("w-1", "k") == (True, "")
    assert attempt_of(post, first).status == "due"


def test_a_stage_without_a_source_is_not_answered_by_one() -> None:
    """A key that looks like the name of a webhook is none."""
    post = Post()
    job_id = cutting(post)
    post.ended(job_id, "parked", awaits="provider:k")
    said = post.tell(job_id, Told(SOURCE, "w-1", "k", 1))
    assert isinstance(said, NoOp)
    assert said.name == "not_awaited"
    assert post.hear("w-1", "k") == (False, "kept")


def test_no_source_speaks_for_another() -> None:
    post = Post()
    job_id = cutting(post)
    park(post, job_id)
    said = post.tell(job_id, Told("other", "w-1", "k", 1))
    assert isinstance(said, NoOp)
    assert name_of("other", "provider:k") != name_of("provider", "k")


@pytest.mark.parametrize("seed", range(200))
def test_in_whatever_order(seed: int) -> None:
    """R-P4: each id is applied at most once, and an attempt is told exactly what it awaits, by the
    first webhook of that key that came while somebody awaited it or was still to come."""
    draw = random.Random(seed)
    post = Post()
    job_id = cutting(post)
    applied: list[str] = []
    asked = 0
    for _ in range(40):
        attempt = post.jobs[job_id].attempt
        if attempt is None:
            break
        what = draw.choice(("hear", "hear", "park", "start", "wait"))
        if what == "hear":
            webhook_id, key = f"w-{draw.randrange(12)}", f"k-{draw.randrange(max(asked, 1) + 1)}"
            seen = webhook_id in post.heard
            done, reason = post.hear(webhook_id, key, webhook_id)
            assert (reason == "replayed") == seen
            applied += [webhook_id] if done else []
        elif what == "park" and attempt.status == "running":
            park(post, job_id, f"k-{asked}", draw.choice((5, 60)))
            asked += 1
        elif what == "start" and post.jobs[job_id].line_at is not None:
            post.start(job_id)
        elif what == "wait" and attempt.status == "parked" and draw.random() < 0.2:
            post.fire(job_id, "deadline")
            break
    assert len(applied) == len(set(applied))
    told = [value for one in post.tried(job_id) for value in one.answers.values()]
    assert len(told) == len(set(told))
    assert set(applied) <= set(told)


def born_elsewhere(post: Post) -> str:
    """Another chair, cut at the same time."""
    job_id = post.born("chair", {"name": "bench"})
    post.do(job_id, "go")
    post.start(job_id)
    return job_id
