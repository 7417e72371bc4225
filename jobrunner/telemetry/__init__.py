"""Figures for Prometheus and traces for OTLP, made of what the rooms tell a ``Meter``.

1. Nothing here is asked for anything while work is done; it is told, and counts. Who wants to see
   the figures comes to ``GET /metrics``; traces leave from a thread of their library.
2. Only this room imports ``prometheus_client`` and ``opentelemetry``, and only when a service
   starts: no command waits for them.
3. A label is a name that this program or an operator's declaration chose. What a stranger sends is
   counted under such a name or not at all, so nobody outside can make the figures grow.
4. A span says which job, which stage, and how it ended. Params, results, messages of failures,
   addresses and tokens are not in it.

Deliberately absent: pushing figures anywhere, sampling of our own (a caller's word in its
``traceparent`` is kept to), logs over OTLP.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jobrunner.core.features.meter import Span
from jobrunner.core.features.notifications import DueDelivery
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.messages import Ended
from jobrunner.telemetry.figures import Figures

if TYPE_CHECKING:
    from jobrunner.telemetry.traces import Traces


class Telemetry(Figures):
    """The figures, and beside them the traces, when somebody wants those."""

    def __init__(self, version: str, traces: "Traces | None" = None) -> None:
        super().__init__(version, traces)
        self._traces = traces

    @property
    def traced(self) -> bool:
        return self._traces is not None

    def close(self) -> None:
        """Lets the last traces go, which may take a while."""
        if self._traces is not None:
            self._traces.close()

    def submitted(self, job: Snapshot, span: Span) -> None:
        super().submitted(job, span)
        if self._traces is not None:
            self._traces.submitted(job, span)

    def attempted(self, job: Snapshot, attempt: Attempt, ended: Ended, span: Span) -> None:
        super().attempted(job, attempt, ended, span)
        if self._traces is not None:
            self._traces.attempted(job, attempt, ended, span)

    def delivered(self, delivery: DueDelivery, number: int, outcome: str, span: Span) -> None:
        super().delivered(delivery, number, outcome, span)
        if self._traces is not None:
            self._traces.delivered(delivery, number, outcome, span)


def open_telemetry(version: str, endpoint: str, environ: Mapping[str, str]) -> Telemetry:
    """Traces are off unless an address for them is set, here or in the environment.

    Raises: Misconfigured, when they are wanted and their library is not installed.
    """
    if not endpoint and not _wanted(environ):
        return Telemetry(version)
    from jobrunner.telemetry.exporting import open_traces

    return Telemetry(version, open_traces(version, endpoint, environ))


def _wanted(environ: Mapping[str, str]) -> bool:
    """Obey OpenTelemetry's own variables, as every program on this machine does."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return False
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(environ.get(name) for name in names)


__all__ = ["Figures", "Telemetry", "open_telemetry"]
