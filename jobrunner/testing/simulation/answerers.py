"""People and systems that stages ask: they answer once, twice, too late, or the other way round."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

from jobrunner.actors import Facade
from jobrunner.core.features.answers.giving import PendingAnswer, open_in, said_by
from jobrunner.core.job import Actor
from jobrunner.testing.simulation.plausible import plausible
from jobrunner.testing.simulation.witness import Witness

ANYTHING = ({"approved": True}, {"approved": False}, "yes")
Listen = Callable[..., Awaitable[Any]]


class Answerers:
    """Answer the questions of jobs that somebody has seen. ``listen`` asks the service, and returns
    None where nothing was heard."""

    def __init__(self, witness: Witness, draw: random.Random, listen: Listen) -> None:
        self._witness = witness
        self._draw = draw
        self._listen = listen
        self._taken: dict[str, str] = {}

    async def answer(self) -> bool:
        """Answer one of the questions that were seen; say whether there is any."""
        jobs = self._witness.jobs.values()
        asked = [(job, name) for job in jobs for name in open_in(job.attempt)]
        if not asked:
            return False
        job, name = self._draw.choice(asked)
        by_token = self._draw.random() < 0.5
        actor = Actor("who-has-it", "workflow") if by_token else Actor(job.user_id, "user")

        async def give(one: Facade) -> None:
            found = await one.world.reader.question_named(job.id, name)
            if found is not None:
                value = self._value(one, found)
                replayed = await one.give(found, actor, value, by_token=by_token)
                self._heard(found, said_by(value), replayed)

        for _ in range(self._draw.choice((1, 1, 2))):
            await self._listen("answers", give, job.id, name)
        return True

    def _value(self, one: Facade, found: PendingAnswer) -> Any:
        stage = one.definitions.stage(found.posed.stage)
        kinds = {kind.__name__: kind for kind in stage.asks} if stage is not None else {}
        kind = kinds.get(found.posed.struct)
        return self._draw.choice(ANYTHING) if kind is None else plausible(kind, self._draw)

    def _heard(self, found: PendingAnswer, said: str, replayed: bool) -> None:
        """Note an answer: of two different ones to one question, only one can have been taken."""
        known = self._taken.setdefault(found.posed.digest, said)
        if known != said:
            about = f"job {found.job_id}: {found.name}"
            self._witness.fault(f"{about} was answered twice, and both answers were taken")
