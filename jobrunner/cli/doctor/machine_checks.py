"""This machine: its disks, its SQLite, its clock, and how much of it a process may have."""

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from jobrunner.cli.doctor.findings import Finding, Patient, fault, fine, warning
from jobrunner.cli.frame.system import clock
from jobrunner.ports import SystemFiles, is_synchronised, open_files_max

NETWORKED = {"9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"}
NETWORKED |= {"gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3", "smbfs"}
IN_MEMORY = {"ramfs", "tmpfs"}
MOUNTS = Path("/proc/self/mounts")
MEMORY = Path("/proc/meminfo")
MEMORY_OF_GROUP = Path("/sys/fs/cgroup/memory.max")
MIB = 1024**2
FLUSHES = 9
FLUSH_SLOW_MS = 20
FILES_SPARE = 512
MEMORY_LEAST = 256 * MIB
NAP_S = 0.2
JUMP_S = 0.1


def disk(patient: Patient) -> Iterator[Finding]:
    """Room on the disks, and that they are disks of this machine."""
    store, least = patient.config.store, patient.config.limits.free_disk
    places = {"store.path": (store.path, least), "store.assets": (store.assets, store.min_free)}
    for key, (path, floor) in places.items():
        free = SystemFiles().free(path)
        said = f"{free // MIB} MiB free for {key}"
        if free < floor:
            cure = f"free some: below {floor // MIB} MiB new work is refused"
            yield fault("disk", said, cure)
        elif free < 4 * floor:
            yield warning("disk", said, f"free some before it is {floor // MIB} MiB")
        else:
            yield fine("disk", said)
    yield from _kinds(patient)


def flush(patient: Patient) -> Iterator[Finding]:
    folder = os.path.dirname(os.path.abspath(patient.config.store.path))
    found = SystemFiles().flushes_s(folder, FLUSHES)
    if not found:
        yield warning("flush", f"nothing can be written in {folder}", "see who owns it")
        return
    took_ms = 1000 * median(found)
    said = f"{took_ms:.2f} ms for the disk to keep a page"
    if took_ms > FLUSH_SLOW_MS:
        yield warning("flush", said, "each commit waits for it: use an SSD, or see who else writes")
    else:
        yield fine("flush", said)


def sqlite(patient: Patient) -> Iterator[Finding]:
    from jobrunner.store.keeping.examination import engine

    found = engine()
    if "THREADSAFE=0" in found.options:
        cure = "use a Python whose SQLite takes threads"
        yield fault("sqlite", f"SQLite {found.version} takes no threads", cure)
        return
    exact = "" if "ENABLE_DBSTAT_VTAB" in found.options else "; sizes of tables are estimated"
    yield fine("sqlite", f"SQLite {found.version}{exact}")


async def time(patient: Patient) -> list[Finding]:
    """That the two clocks go on together, and that somebody keeps the one on the wall."""
    began, began_at = clock.monotonic(), clock.now()
    await clock.sleep(NAP_S)
    passed_s = clock.monotonic() - began
    jump_s = abs((clock.now() - began_at) / 1000 - passed_s)
    if jump_s > JUMP_S:
        said = f"the wall clock jumped by {jump_s:.1f} s in {passed_s:.1f} s"
        return [
            warning("clock", said, "let one service alone set it, and slew instead of stepping")
        ]
    kept = is_synchronised()
    if kept is False:
        cure = "enable chrony or systemd-timesyncd: deadlines and signatures go by this clock"
        return [warning("clock", "nobody keeps the time of this machine", cure)]
    return [fine("clock", "its time is kept" if kept else "steady; who keeps it is not known here")]


def limits(patient: Patient) -> Iterator[Finding]:
    """Compare what a process may have with what these settings may ask for."""
    at = patient.config.server
    needed = patient.config.limits.connections * (2 if at.admin_host else 1) + FILES_SPARE
    most = _files_of(patient.holder) or open_files_max()
    if most is not None and most < needed:
        cure = f"LimitNOFILE={needed} in its unit, or fewer limits.connections"
        said = f"{most} open files, and limits.connections may need {needed}"
        yield warning("limits", said, cure)
    else:
        yield fine("limits", f"{'any number of' if most is None else most} open files")
    yield from _memory(patient)


def _memory(patient: Patient) -> Iterator[Finding]:
    free = _available()
    if free is None:
        return
    needed = MEMORY_LEAST + patient.config.limits.kept_jobs
    said = f"{free // MIB} MiB of memory to be had"
    if free < needed and not patient.runs:
        yield warning("memory", said, f"have {needed // MIB} MiB, or lower limits.kept_jobs")
    else:
        yield fine("memory", said)


def _kinds(patient: Patient) -> Iterator[Finding]:
    kind = _kind_of(patient.config.store.path)
    if kind in NETWORKED:
        cure = "put store.path on a disk of this machine: locks and flushes do not hold there"
        yield fault("disk", f"store.path is on a file system of the network ({kind})", cure)
    elif kind in IN_MEMORY:
        cure = "put store.path on a disk, unless nothing needs to stay"
        yield warning("disk", f"store.path is in memory ({kind}) and gone at the next boot", cure)
    if (kind := _kind_of(patient.config.store.assets)) in NETWORKED:
        said = f"store.assets is on a file system of the network ({kind})"
        yield warning("disk", said, "have it on a disk of this machine, if it can be")


def _kind_of(path: str) -> str:
    """The file system of a path, where the system tells; of nested ones the innermost."""
    place = os.path.realpath(path)
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found = ("", "")
    for line in lines:
        _, mounted, kind, *_ = line.split(" ")
        mounted = mounted.replace("\\040", " ")
        inside = place == mounted or place.startswith(mounted.rstrip("/") + "/")
        if inside and len(mounted) >= len(found[0]):
            found = (mounted, kind)
    return found[1]


def _files_of(holder: str) -> int | None:
    """The limit of the service itself, where it runs."""
    try:
        text = Path(f"/proc/{int(holder.split(maxsplit=1)[0])}/limits").read_text(encoding="ascii")
        line = next(line for line in text.splitlines() if line.startswith("Max open files"))
        return int(line.split()[4])
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _available() -> int | None:
    """Bytes that this machine has left, or that the group of this process may have."""
    try:
        lines = MEMORY.read_text(encoding="ascii").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        free = int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    try:
        return min(free, int(MEMORY_OF_GROUP.read_text(encoding="ascii")))
    except (OSError, ValueError):  # there is no group, or it may have all
        return free
