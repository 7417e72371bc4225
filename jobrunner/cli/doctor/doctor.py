"""The command: it asks everybody once, lets each check look, and prints what they found."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from msgspec.structs import asdict

from jobrunner.cli.doctor import file_checks, machine_checks, settings_checks
from jobrunner.cli.doctor.findings import Finding, Patient
from jobrunner.cli.doctor.standby import standby
from jobrunner.cli.frame import printing, terminal
from jobrunner.cli.frame.options import Listing
from jobrunner.cli.frame.service import service, url_of
from jobrunner.cli.frame.system import clock
from jobrunner.config.settings import Config
from jobrunner.errors import JobrunnerError, Misconfigured, Refused

CHECK_S = 20.0
CODES = {"ok": 0, "warn": 1, "bad": 2}
COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}
CHECKS: tuple[Callable[[Patient], Iterator[Finding]], ...] = (
    *(
        settings_checks.settings,
        file_checks.file,
        file_checks.life,
        file_checks.tokens,
        file_checks.backups,
        standby,
    ),
    *(machine_checks.disk, machine_checks.flush, machine_checks.sqlite, machine_checks.limits),
    *(settings_checks.ports, settings_checks.plugins),
)


async def doctor(*, listing: Listing = Listing()) -> int:
    """Look at everything that a service with these settings needs here, and name each cure.

    It changes nothing, and works beside a running service and without one. The exit code is that of
    the worst line: 0 all is well, 1 something is to be looked at, 2 something is wrong.
    """
    patient = await _admitted(listing)
    found = [finding for check in CHECKS for finding in _looked(check, patient)]
    found += await machine_checks.time(patient)
    found += await settings_checks.objects(patient)
    if listing.output == "table":
        for one in found:
            print(_line(one))
    else:
        printing.rows([asdict(one) for one in found], (), listing, key="topic")
    return max(CODES[one.level] for one in found)


async def _admitted(listing: Listing) -> Patient:
    from jobrunner.store.keeping.examination import examined, holder_of

    config, faults = _settings(listing)
    path = config.store.path
    said: tuple[str | None, str, dict[str, str]] = (None, "", {})
    with suppress(JobrunnerError):
        said = await _asked(listing)
    holder, now = holder_of(path), clock.now()
    until = clock.monotonic() + CHECK_S
    there = os.path.lexists(path)
    found = examined(path, not holder, now, lambda: clock.monotonic() >= until) if there else None
    return Patient(config, faults, now, holder, found, listing.url or url_of(config), *said)


def _settings(listing: Listing) -> tuple[Config, tuple[str, ...]]:
    """Read the settings, or the defaults where they have faults."""
    try:
        return listing.load(), ()
    except Misconfigured as error:
        return Config(), tuple(str(error).splitlines())


async def _asked(listing: Listing) -> tuple[str, str, dict[str, str]]:
    """Say what keeps the service from being ready, its version, and what it warns of.

    Raises: JobrunnerError, where nobody answers, or somebody else.
    """
    async with service(listing) as running:
        alive: dict[str, Any] = await running.get("/healthz")
        try:
            ready = await running.get("/readyz")
        except Refused as refused:
            checks: dict[str, str] = refused.extra.get("checks", {})
            failed = [f"{name}: {text}" for name, text in checks.items() if text]
            said = "; ".join(failed) or "its own checks fail"
            return said, alive["version"], refused.extra.get("warnings", {})
        return "", alive["version"], ready["warnings"]


def _looked(check: Callable[[Patient], Iterator[Finding]], patient: Patient) -> list[Finding]:
    """One check that cannot be made costs none of the others."""
    try:
        return list(check(patient))
    except OSError as error:
        return [Finding(check.__name__, "bad", str(error), "this could not be looked at")]


def _line(one: Finding) -> str:
    level = terminal.painted(f"{one.level:<4}", COLOURS[one.level])
    cure = f": {printing.cell('', one.cure, printing.TABLE)}" if one.cure else ""
    return f"{level}  {one.topic:<8}  {printing.cell('', one.says, printing.TABLE)}{cure}"
