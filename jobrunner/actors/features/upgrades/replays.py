"""Puts decisions on record, for workflows whose settings say so.

The record travels with its decision and is written in the same transaction. Of a job that this life
of the service has recorded nothing of yet the job as it stood is written too, so that a record that
begins in the middle can still be decided again.
"""

from collections import OrderedDict

import msgspec
from msgspec.structs import replace

from jobrunner.core.decision import Decision, KeyRow
from jobrunner.core.facts import Facts
from jobrunner.core.features.redaction import Redaction
from jobrunner.core.features.upgrades.replays import recorded
from jobrunner.core.messages import Message, Moment, Submit, Supersede
from jobrunner.core.replies import Verdict

KNOWN_MAX = 10_000


class Recorder:
    """``workflows`` are those whose decisions are kept."""

    def __init__(
        self, redaction: Redaction | None = None, workflows: frozenset[str] = frozenset()
    ) -> None:
        self._clean = redaction or Redaction()
        self._workflows = workflows
        self._known: OrderedDict[str, None] = OrderedDict()

    def kept(
        self,
        verdict: Verdict,
        message: Message | Submit,
        facts: Facts,
        moment: Moment,
        keys: tuple[KeyRow, ...] = (),
    ) -> Verdict:
        """The verdict, with the record of its decision if one is to be written."""
        if not self._workflows or not isinstance(verdict, Decision):
            return verdict
        if verdict.after.workflow not in self._workflows:
            return verdict
        superseded = Supersede(verdict.after.id)
        also = tuple(
            other if other.record else self._with_record(other, superseded, Facts(), moment)
            for other in verdict.also
        )
        return replace(self._with_record(verdict, message, facts, moment, keys), also=also)

    def _with_record(
        self,
        decision: Decision,
        message: Message | Submit,
        facts: Facts,
        moment: Moment,
        keys: tuple[KeyRow, ...] = (),
    ) -> Decision:
        job_id = decision.after.id
        based = decision.before is not None and job_id not in self._known
        drawn = Moment(moment.now, moment.id, moment.jitter, moment.epoch)
        found = recorded(decision, message, facts, drawn, keys=keys, based=based)
        if found is None:
            return decision
        self._known[job_id] = None
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        said = msgspec.json.decode(msgspec.json.encode(found))
        return replace(decision, record=msgspec.json.encode(self._clean.within(said)))
