"""Where traces go: OTLP over HTTP, in batches, from a thread of the library's."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from jobrunner.errors import Misconfigured
from jobrunner.telemetry.traces import Traces

TRACES_PATH = "/v1/traces"
CURE = "install it: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"


def open_traces(version: str, endpoint: str, environ: Mapping[str, str]) -> Traces:
    """``endpoint`` empty: what the library finds in its own variables.

    Raises: Misconfigured.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        wanted = f"telemetry.otlp_endpoint = {endpoint!r}" if endpoint else "OTEL_EXPORTER_OTLP_*"
        raise Misconfigured(f"{wanted}: OpenTelemetry is not there; {CURE}") from error
    named = {"service.version": version}
    said = environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not (environ.get("OTEL_SERVICE_NAME") or "service.name=" in said):
        named["service.name"] = "jobrunner"
    exporter = OTLPSpanExporter(endpoint=traces_url(endpoint) or None)
    return Traces(BatchSpanProcessor(exporter), Resource.create(dict(named)))


def traces_url(endpoint: str) -> str:
    """An address without a path is that of a collector, which takes traces at a known place."""
    if not endpoint or urlsplit(endpoint).path.strip("/"):
        return endpoint
    return endpoint.rstrip("/") + TRACES_PATH
