"""Advertising material, charged when it is ordered and given back when it is not delivered.

The lifecycle is a table in ``workflow``; ``routes`` opens the three doors that existing clients
know, and ``repeats`` tells when a goodwill refund was made before.

1. A run is charged once, at birth or at an admin's retry, and refunded at most once: every end but
   ``completed`` gives the money back in the commit that ends it.
2. Two types (copy, scrape) are picked up where they are born. The others stand in line first, and
   may wait for a provider without leaving ``processing``.
3. Retries of a stage are nobody's business but the stage's: no status shows them.
4. A client's key leads to the same job for good, whatever became of it.

Absent on purpose: a key of the service's own making (two equal orders are two orders), and a way
back from ``completed`` or ``canceled``.
"""

from jobrunner import Definition, Panel
from jobrunner_cutx.params import STRUCTS
from jobrunner_cutx.repeats import refunded_before
from jobrunner_cutx.routes import BODIES, delivered, ordered, read_order
from jobrunner_cutx.settings import Settings
from jobrunner_cutx.sources import replicate
from jobrunner_cutx.workflow import WORKFLOW

__all__ = ["definition", "panel", "replicate"]

definition = Definition(
    WORKFLOW,
    functions={
        "refunded_before": refunded_before,
        "read_order": read_order,
        "ordered": ordered,
        "delivered": delivered,
    },
    structs={**STRUCTS, **BODIES},
    settings=Settings,
)

panel = Panel("cutx", __name__, title="What was made")
