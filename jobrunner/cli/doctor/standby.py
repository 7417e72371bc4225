"""The copy from which another machine can take over: whose it is, and whether it would survive."""

import os
from collections.abc import Iterator

from jobrunner.cli.doctor.findings import Finding, Patient, fault, fine, warning
from jobrunner.errors import Misconfigured, StorageError


def standby(patient: Patient) -> Iterator[Finding]:
    """Nothing is made, and nobody's token is touched."""
    own = patient.config.standby
    if not own.path:
        yield fine("standby", "there is none; backups alone are what a dead machine leaves")
        return
    if own.path.startswith("s3://"):
        yield from _token(patient)
        return
    if not os.path.isdir(own.path):
        yield fault("standby", f"standby.path ({own.path}) is no folder", "mount it, or make it")
        return
    if _same_disk(own.path, patient.config.store.path):
        cure = "take one that the other machine reaches when this one is dead"
        yield warning("standby", f"{own.path} is on the disk of the file itself", cure)
    yield from _token(patient)


def _token(patient: Patient) -> Iterator[Finding]:
    from jobrunner.standing_by import copy_place, known_machine

    own, path = patient.config.standby, patient.config.store.path
    try:
        token = copy_place(patient.config, own.path, os.environ).tokens.find()
    except (OSError, StorageError, Misconfigured) as error:
        yield fault("standby", f"the token in {own.path} cannot be read: {error}", "mend that")
        return
    machine = known_machine(path)
    if token is None:
        yield fine("standby", f"{own.path} has no token yet; the first start makes it")
    elif machine is None or token.holder != machine.name:
        said = f"{own.path} is held by another machine ({token.holder}, epoch {token.epoch})"
        cure = "this one does not start: follow with `jobrunner standby`, or take over with it"
        yield warning("standby", said, cure)
    else:
        yield fine("standby", f"{own.path} is held by this machine, epoch {token.epoch}")


def _same_disk(folder: str, path: str) -> bool:
    beside = os.path.dirname(os.path.abspath(path))
    return os.path.isdir(beside) and os.stat(folder).st_dev == os.stat(beside).st_dev
