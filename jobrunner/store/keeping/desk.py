"""The questions and the rows of this folder, for the reader and the compiler of units."""

from collections.abc import Callable, Iterator
from typing import Any

from jobrunner.core.keeping.backups import NOTES
from jobrunner.core.keeping.charts import Charted
from jobrunner.core.keeping.objects import OBJECT_UNITS
from jobrunner.store.askable import asks
from jobrunner.store.keeping import backups as saved
from jobrunner.store.keeping import charts, objects, retention
from jobrunner.store.statements import Row

KEEPING: dict[type, Callable[[Any], Iterator[Row]]] = {
    **dict.fromkeys(NOTES, saved.backup_rows),
    **dict.fromkeys(retention.UNITS, retention.retention_rows),
    Charted: charts.chart_rows_of,
    **dict.fromkeys(OBJECT_UNITS, objects.object_rows),
}
LAST_IN_ORDER = (*retention.RETENTION_IN_ORDER, *charts.CHARTS_IN_ORDER)


class KeepingAnswers:
    """The part of the reader that answers these."""

    backups = asks(saved.backups)
    restoration = asks(saved.restoration)
    uncertain = asks(saved.uncertain)
    ended_counts = asks(retention.ended_counts)
    due_lots = asks(retention.due_lots)
    counted = asks(retention.counted)
    ripe_jobs = asks(retention.ripe_jobs)
    overdue = asks(retention.overdue)
    idle_files = asks(retention.idle_files)
    idle_count = asks(retention.idle_count)
    naming = asks(retention.naming)
    chart_rows = asks(charts.chart_rows)
    own_charts = asks(charts.own_charts)
    files_here = asks(objects.files_here)
    files_there = asks(objects.files_there)
    far_file = asks(objects.far_file)
    last_asset = asks(objects.last_asset)
    copies_over = asks(objects.copies_over)
    keys_unseen = asks(objects.keys_unseen)
    keys_left = asks(objects.keys_left)
    keys_orphaned = asks(objects.keys_orphaned)
    file_moves = asks(objects.file_moves)
