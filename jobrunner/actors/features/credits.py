"""Grants of credits by an operator, each once per key."""

from jobrunner.actors.commits import ours
from jobrunner.actors.requester import asked
from jobrunner.actors.shared import World
from jobrunner.core.credits import granted_otherwise
from jobrunner.core.decision import Clash
from jobrunner.core.units import Grant


async def grant(world: World, unit: Grant) -> bool:
    """Give credits to an account. True: they were given before, under the same key.

    Raises: Refused, when that key stands for other credits.
    """
    outcome = ours(await world.commit(asked(unit)))
    if not isinstance(outcome, Clash):
        return False
    before = await world.reader.grant(unit.user_id, unit.key)
    assert before is not None, f"a grant clashed: {outcome}"
    if refused := granted_otherwise(unit, before):
        raise refused
    return True
