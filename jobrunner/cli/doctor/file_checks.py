"""The file of the store: is it there, ours, whole, ours alone, and is there a copy of it."""

import os
import stat
from collections.abc import Iterator

from jobrunner.cli.doctor.findings import Finding, Patient, fault, fine, warning
from jobrunner.core.instants import text_of

DAY_MS, MINUTE_MS = 86_400_000, 60_000
SECRETS = ("admin.token", "notify.secret", "answers.secret")
RESTORE = "put a backup in its place with `jobrunner db restore FOLDER --force`"


def file(patient: Patient) -> Iterator[Finding]:
    path, found = patient.config.store.path, patient.file
    if found is None:
        yield warning(
            "file", f"{path} is not there", "the first start makes it; else see store.path"
        )
        return
    if found.fault:
        yield fault("file", f"{path} cannot be read: {found.fault}", RESTORE)
    elif not found.owner and not found.schema:
        yield warning("file", f"{path} is empty", "the next start fills it; else see store.path")
    elif not found.is_ours:
        yield fault("file", f"{path} is another program's", "set store.path to a file of our own")
    elif found.schema > found.newest:
        yield fault("file", f"{path} has schema {found.schema}, newer than this program's "
                    f"{found.newest}", "start the jobrunner that wrote it")  # fmt: skip
    elif found.schema < found.newest:
        cure = "the next start brings it along; see `jobrunner db migrate --dry-run`"
        yield warning("file", f"{path} has schema {found.schema} of {found.newest}", cure)
    else:
        yield fine("file", f"{path} is ours, with schema {found.schema}")
        yield from _inside(patient)
    yield from _owned(patient)


def life(patient: Patient) -> Iterator[Finding]:
    """How the service before this one ended, and what came of its jobs."""
    found = patient.file
    if found is None or found.life is None:
        return
    last = found.life
    if last.ended_at is None and not patient.holder and not patient.runs:
        said = f"the service of {text_of(last.started_at)} ended without saying why"
        yield warning("log", said, f"look at the end of its log, about {text_of(last.seen_at)}")
    if last.seen_at > patient.now + MINUTE_MS:
        said = f"the file was last used at {text_of(last.seen_at)}, which is still to come"
        yield fault("clock", said, "set the clock of this machine before anything else")
    if found.stuck:
        cure = "see `jobrunner job list --stuck` and `jobrunner job release`"
        yield warning("jobs", f"{found.stuck} stuck", cure)


def tokens(patient: Patient) -> Iterator[Finding]:
    config = patient.config
    if config.auth.mode == "none":
        who = "everybody on this machine is an admin (auth.mode = none)"
        yield warning("tokens", who, 'set auth.mode = "tokens" unless you are alone here')
        return
    found = patient.file
    if found is None or found.admins is None:
        yield fine("tokens", "the first start makes a token for an admin")
        return
    if not found.admins:
        yield fault("tokens", "no admin has a token", "any start makes one, in admin.token")
    else:
        yield fine("tokens", f"{found.admins} for admins")
    if found.expiring:
        cure = "see `jobrunner token list` and `jobrunner token rotate`"
        yield warning("tokens", f"{found.expiring} end within a week", cure)


def backups(patient: Patient) -> Iterator[Finding]:
    found, own = patient.file, patient.config.backup
    if found is None or found.admins is None:
        return
    by_itself = bool(own.path) and own.every > 0
    if found.backup_at is None:
        cure = (
            "give it time" if by_itself else "set backup.path, or run `jobrunner db backup FOLDER`"
        )
        yield warning("backups", "there is none", cure)
    else:
        yield from _aged(patient, found.backup_at, 2 * own.every if by_itself else 7 * 86_400)
    if found.backup_failure:
        cure = "mend that, then `jobrunner db backup`"
        yield fault("backups", f"the last one failed: {found.backup_failure}", cure)
    if own.path and _disk(own.path) == _disk(patient.config.store.path):
        cure = "name a folder on another disk"
        yield warning(
            "backups", f"backup.path ({own.path}) is on the disk of the file itself", cure
        )


def _inside(patient: Patient) -> Iterator[Finding]:
    found = patient.file
    assert found is not None, "only a file that is there is looked into"
    if found.damage:
        yield fault("file", f"damaged: {found.damage}", RESTORE)
    elif found.damage is None:
        yield warning("file", "too large to be examined in passing", "run `jobrunner db check`")
    else:
        yield fine("file", "its pages are whole; `jobrunner db check` looks at their meaning")


def _owned(patient: Patient) -> Iterator[Finding]:
    """The file and its secrets belong to this user, and are nobody else's to read."""
    path = patient.config.store.path
    beside = [os.path.join(os.path.dirname(path) or ".", name) for name in SECRETS]
    wrong = False
    for place in (path, *beside):
        try:
            seen = os.stat(place)
        except OSError:
            continue
        if not stat.S_ISREG(seen.st_mode):
            wrong = True
            yield fault("owner", f"{place} is no plain file", "move it away, or see store.path")
        elif seen.st_uid != os.geteuid():
            wrong = True
            cure = "run this as the user of the service, or give it to that user with chown"
            yield warning("owner", f"{place} belongs to user {seen.st_uid}, not to this one", cure)
        elif seen.st_mode & 0o077:
            wrong = True
            mode = stat.S_IMODE(seen.st_mode)
            yield warning("owner", f"{place} is open to others ({mode:o})", f"chmod 600 {place}")
    if not wrong:
        yield fine("owner", "the file and its secrets are this user's alone")


def _aged(patient: Patient, backup_at: int, most_s: float) -> Iterator[Finding]:
    days = (patient.now - backup_at) / DAY_MS
    said = f"the last one is as of {text_of(backup_at)}"
    if days * 86_400 > most_s:
        yield warning("backups", f"{said}, {days:.0f} days ago", "run `jobrunner db backup`")
    else:
        yield fine("backups", said)


def _disk(path: str) -> int | None:
    place = os.path.abspath(path)
    while not os.path.exists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    try:
        return os.stat(place).st_dev
    except OSError:
        return None
