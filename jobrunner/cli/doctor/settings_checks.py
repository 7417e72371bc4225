"""The settings, the plugins that they load, and the places where the service listens."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobrunner.cli.doctor.findings import Finding, Patient, fault, fine, warning
from jobrunner.cli.frame.installed import installed
from jobrunner.config.contradictions import is_loopback
from jobrunner.errors import FilesUnreachable, JobrunnerError, Misconfigured
from jobrunner.ports import cannot_listen

if TYPE_CHECKING:
    from jobrunner.stages import Registry


def settings(patient: Patient) -> Iterator[Finding]:
    """Find what would keep it from starting, and what is allowed and unwise."""
    for one in patient.faults:
        yield fault("settings", one, "a start is refused until then")
    if not patient.faults:
        yield fine("settings", "each is known and has a value that it may have")
    server = patient.config.server
    hosts = [host for host in (server.host, server.admin_host) if host and not is_loopback(host)]
    if hosts and not server.trusted_proxies:
        said = f"{hosts[0]} is not loopback, and whoever speaks to it speaks in the clear"
        yield warning("settings", said, "let a proxy with TLS listen there, and this on 127.0.0.1")


async def objects(patient: Patient) -> list[Finding]:
    """The store of objects answers, and lets us look."""
    from jobrunner.equipping import bucket_of

    try:
        bucket = bucket_of(patient.config, os.environ)
        if bucket is None:
            return []
        await bucket.check()
    except Misconfigured:
        return []  # that is a fault of the settings, and told as one
    except FilesUnreachable as error:
        cure = "look at its keys, its name and its rights" if error.lasting else "look at the store"
        return [fault("objects", str(error), cure)]
    return [fine("objects", f"{bucket.terms.place} answers")]


def plugins(patient: Patient) -> Iterator[Finding]:
    """Those that load, those that do not, and what they lack on this machine."""
    try:
        registry = installed(patient.config)
    except JobrunnerError as error:
        yield fault("plugins", str(error), "see `jobrunner plugin list`")
        return
    names = ", ".join(sorted(registry.names())) or "none"
    yield fine("plugins", f"workflows: {names}")
    yield from _refused(registry)
    yield from _lacking(patient, registry)


def ports(patient: Patient) -> Iterator[Finding]:
    """Where it listens it answers, or could."""
    server = patient.config.server
    if patient.answer is not None:
        yield from _answered(patient)
        return
    if patient.holder:
        said = f"process {patient.holder} has the file, and nobody answers at {patient.url}"
        cure = "look at its log; give --url, or --config as it was started with"
        yield fault("ports", said, cure)
        return
    listeners = [(server.host, server.port)]
    listeners += [(server.admin_host, server.admin_port)] if server.admin_host else []
    for host, port in listeners:
        if reason := cannot_listen(host, port):
            cure = "stop who listens there, or set server.port"
            yield fault("ports", f"{host}:{port} is not to be had: {reason}", cure)
        else:
            yield fine("ports", f"{host}:{port} is free; no service runs")


def _answered(patient: Patient) -> Iterator[Finding]:
    said = f"{patient.url} is jobrunner {patient.version}"
    if patient.answer:
        yield fault("ports", f"{said}, and not ready: {patient.answer}", "see its log and /readyz")
    else:
        yield fine("ports", f"{said}, and ready")
    for name, text in sorted(patient.warnings.items()):
        yield warning("service", f"{name}: {text}", "see its log")


def _refused(registry: "Registry") -> Iterator[Finding]:
    for kind, refused in registry.refused.items():
        for name, reasons in sorted(refused.items()):
            said = f"{kind} {name}: {'; '.join(map(str, reasons))}"
            yield fault("plugins", said, "see `jobrunner plugin list`")


def _lacking(patient: Patient, registry: "Registry") -> Iterator[Finding]:
    from jobrunner.config.overrides import idle_rates, unknown_plugins, unknown_workflows
    from jobrunner.config.schedules import unfit_schedules
    from jobrunner.preflight import lacking
    from jobrunner.stages.distributions import offered

    config = patient.config
    rates = registry.rates()
    ignored = (
        *unknown_plugins(config, offered()),
        *unknown_workflows(config, registry.known()),
        *idle_rates(config, rates),
    )
    for one in ignored:
        yield warning("settings", one, "it has no effect")
    for name in sorted(rates - config.rates.keys() - registry.paced.keys()):
        said = f"rate {name} has no limit: only its provider holds it back"
        yield warning("settings", said, f'set [rates] {name}, like "60/min"')
    for one in unfit_schedules(config, registry.known(), registry.current):
        yield fault("schedules", one, "change it in the settings; nothing of it runs until then")
    for one in lacking(config, registry, os.environ):
        yield fault("settings", one, "see `jobrunner config check`")
