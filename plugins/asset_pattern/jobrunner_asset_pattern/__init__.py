"""Work that makes files: reported step by step, whole, in part, or not at all.

The lifecycle is a table in ``workflow``; ``params`` says what the two types of work take.

1. Nothing leads out of ``queued`` but the pick-up, not even failure: a job that cannot start fails
   from ``processing``, after it was picked up.
2. A repeat of ``processing`` is a report of progress. A repeat of any other status is met already
   and writes nothing, so an end stays as it was first told.
3. ``partial`` is an end that the work itself declares. A failure is a failure, however many files
   were made before it.
4. A stranger's job answers that it is a stranger's: here that is no secret.

Absent on purpose: commands (an end is marked by taking its edge), a price, a derived key.
"""

from jobrunner import Definition, Panel
from jobrunner_asset_pattern.params import Export, Generation
from jobrunner_asset_pattern.settings import Settings
from jobrunner_asset_pattern.workflow import WORKFLOW

__all__ = ["definition", "panel"]

definition = Definition(
    WORKFLOW, structs={"generation": Generation, "export": Export}, settings=Settings
)

panel = Panel("asset-pattern", __name__, title="The files")
