"""Asks the store about a submission, or guesses: its key is free, and its owner can pay.

Nearly always that is so, and the commit looks at both again. So the birth is decided as if nothing
were known of key and balance, and one trip to the reader's thread is saved. A guess may only say
yes: what would be refused on it is asked about, and so is what the commit has refused.

A wrong guess costs more than a question. The set of units that it was written in is taken back and
written one by one. So a key that came lately is asked about, and after a wrong guess its owner is
asked about until so many questions have shown that guessing would have been right; for a shorter
while everybody is, since a restart brings old keys of many owners. Counted in submissions and not
in time, so that a simulation decides the same each time.
"""

from msgspec.structs import asdict, replace

from jobrunner.actors.shared import World
from jobrunner.core.decision import Decision, KeyRow
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts, Known
from jobrunner.core.features.turns.singletons import singleton_digest
from jobrunner.core.messages import Submit
from jobrunner.core.questions import DoorQuestion
from jobrunner.core.replies import Verdict

KEYS_MAX = 32_768
OWNERS_MAX = 10_000
DOUBTS_OF_OWNER = 64
DOUBTS_OF_ALL = 32


class Guesses:
    """Knows the keys of two generations, each of ``KEYS_MAX``, and whom not to trust now."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._older: set[str] = set()
        self._owners: dict[str, int] = {}
        self._doubts = 0

    def trust(self, owner: str) -> bool:
        """Say whether this owner's new keys are free, as far as one can guess."""
        return not self._doubts and owner not in self._owners

    def is_new(self, owner: str, keys: tuple[KeyRow, ...]) -> bool:
        """Say whether none of these keys came lately; from now on they did."""
        marks = [owner + key.digest for key in keys]
        new = self._keys.isdisjoint(marks) and self._older.isdisjoint(marks)
        if len(self._keys) >= KEYS_MAX:
            self._keys, self._older = set(), self._keys
        self._keys.update(marks)
        return new

    def learn(self, owner: str, *, right: bool) -> None:
        """Note whether a guess about this owner was right, or would have been."""
        left = self._owners.pop(owner, 0)
        if not right:
            self._doubts = self._doubts if left else DOUBTS_OF_ALL
            self._owners[owner] = DOUBTS_OF_OWNER
            if len(self._owners) > OWNERS_MAX:
                del self._owners[next(iter(self._owners))]
            return
        self._doubts = max(self._doubts - 1, 0)
        if left > 1:
            self._owners[owner] = left - 1


def unasked(submission: Submit) -> Facts:
    """Make facts of which the store was not asked for any."""
    return Facts(verified=submission.origin.verified if submission.origin else frozenset())


async def facts_of(
    world: World,
    definition: Definition,
    submission: Submit,
    keys: tuple[KeyRow | None, ...],
    now: int,
) -> Facts:
    """Ask the store what may decide about a submission."""
    if (tie := submission.parent) is not None:
        found = await world.reader.child(tie.job_id, tie.run_id, tie.key)
        if found is not None:
            return Facts(known=Known(found[0], "", found[1]))
    if (link := submission.batch) is not None:
        item = await world.reader.batch_item(link.id, link.key)
        if item is not None and item[0].job_id:
            return Facts(known=Known(item[0].job_id, "", item[1]))
    client, derived = keys
    quota = definition.workflow.quota
    answer = await world.reader.door(
        DoorQuestion(
            user_id=submission.actor.name,
            workflow=submission.workflow,
            key_digest=client.digest if client else None,
            derived_digest=derived.digest if derived else None,
            singleton_digest=singleton_digest(submission),
            quota=bool(quota.open_jobs or quota.per_minute or quota.per_day),
            now=now,
        )
    )
    return replace(unasked(submission), **asdict(answer))


def as_guessed(verdict: Verdict) -> bool:
    """Say whether a guess would have come to the same."""
    return isinstance(verdict, Decision) and not any(key.takes_from for key in verdict.keys)
