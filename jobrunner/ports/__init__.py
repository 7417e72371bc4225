"""The eight seams through which this program touches the world, and their real forms.

Clock · Ids (and jitter) · StoreThread (run this batch on the store's thread) · Files · Children
(processes and threads) · Connector (HTTP going out) · Signals · Minder (the program that started
this one). Only ``app`` binds them. Nobody else imports time, random, uuid, secrets, threading,
subprocess, socket or tempfile, so the same service runs on a simulated world, and no line of it
ever asks which world that is.
"""

import os

from jobrunner.ports.children import SystemChild, SystemChildren, lent_environment, one_at_a_time
from jobrunner.ports.clock import (
    SystemClock,
    SystemIds,
    end_after,
    is_synchronised,
    rest,
    since_boot,
)
from jobrunner.ports.disk import SystemFiles, digest
from jobrunner.ports.lines import ErrorOutput, LineThread, RotatedFile
from jobrunner.ports.minder import SystemMinder
from jobrunner.ports.network import (
    SystemConnector,
    SystemSignals,
    bound_send_buffer,
    cannot_listen,
    file_of,
    open_files_max,
    raise_open_files,
    remove_socket,
    socket_at,
)
from jobrunner.ports.seams import (
    Child,
    Children,
    Clock,
    Connector,
    Files,
    Ids,
    Minder,
    Ports,
    Signals,
    StoreThread,
    Watchdog,
)


def system_ports() -> Ports:
    """Bind every seam to this machine."""
    clock = SystemClock()
    return Ports(
        clock,
        SystemIds(clock),
        SystemFiles(),
        SystemChildren(),
        SystemSignals(),
        connector=SystemConnector(),
        minder=SystemMinder(os.environ),
    )


__all__ = [
    "Child",
    "Children",
    "Clock",
    "Connector",
    "ErrorOutput",
    "Files",
    "Ids",
    "LineThread",
    "Minder",
    "Ports",
    "RotatedFile",
    "Signals",
    "StoreThread",
    "SystemChild",
    "SystemChildren",
    "SystemClock",
    "SystemConnector",
    "SystemFiles",
    "SystemIds",
    "SystemMinder",
    "SystemSignals",
    "Watchdog",
    "bound_send_buffer",
    "cannot_listen",
    "digest",
    "end_after",
    "file_of",
    "is_synchronised",
    "lent_environment",
    "one_at_a_time",
    "open_files_max",
    "raise_open_files",
    "remove_socket",
    "rest",
    "since_boot",
    "socket_at",
    "system_ports",
]
