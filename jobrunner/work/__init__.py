"""Stages on another machine: the same plugins, the same stage code, and a service far away.

One process takes work of one workflow from a service, runs it by ``stages.run`` in the same three
ways as the service would, and says over HTTP what its own stage host would say. It has no database:
whatever must last is told to the service, and is on the service's disk when the stage goes on.

1. It takes only what it can run (``abilities``): its declaration is compared with the service's.
2. Nobody waits for a line: what has an id is said again until the service has answered, however
   long that is away. Only an answer ends a claim.
3. A claim that is over is noticed within a moment, and its stage is stopped; what it still says is
   not sent.
4. When told to stop it takes nothing more, lets stages end for a while, and gives back the rest.

Deliberately absent: retries, deadlines, money, callbacks. They are the service's, as ever.
"""

from jobrunner.work.abilities import Abilities, for_elsewhere
from jobrunner.work.one_claim import Equipment
from jobrunner.work.taking import Taking, WorkTerms

__all__ = ["Abilities", "Equipment", "Taking", "WorkTerms", "for_elsewhere"]
