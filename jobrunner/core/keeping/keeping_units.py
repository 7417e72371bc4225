"""Everything that the care of the service and its file writes, beside all jobs."""

from jobrunner.core.keeping.backups import BackupEvent
from jobrunner.core.keeping.charts import Charted
from jobrunner.core.keeping.objects import ObjectUnit
from jobrunner.core.keeping.retention import RetentionUnit

KeepingUnit = RetentionUnit | BackupEvent | Charted | ObjectUnit
