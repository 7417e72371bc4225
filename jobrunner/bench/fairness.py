"""Neighbours: a flood beside somebody calm, stages that burn cores, very many that tell."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jobrunner.bench.clients import Answers, again_and_again, once_each, one_client
from jobrunner.bench.cost import resident_kib
from jobrunner.bench.load import request
from jobrunner.bench.measuring import FRESH, Sample, Values, Wanted, Watch, submission
from jobrunner.bench.running import ASKING, WAITS
from jobrunner.bench.servers import DEFAULT, LARGE, Service, service
from jobrunner.bench.workloads import body

LOOK_S = 20.0
FLOOD_CLIENTS = 32
CROWD_CLIENTS = 256  # more than have a place at the front
FLOOD_USERS = 100  # more than there are slots, so that each has one or none
AHEAD_S = 2.0
CALM_USERS = 10
CALM_REST_S = 0.1
PROBE = request("GET", "/healthz")
PROBE_REST_S = 0.01
POLL_S = 0.1
TELLING_S = 120


def flooding(plan: Wanted) -> Iterator[Sample]:
    """flood: some run a job now and then, one of them at a time; others submit as many as they can
    beside. Each time in a service that has seen nobody yet."""
    seconds = max(plan.seconds, LOOK_S)
    for workflow in ("steps", "others"):
        with service(plan.disk, DEFAULT) as server:
            found = _calmly(plan, server, workflow, seconds)
            yield Sample("flood", f"alone, {workflow}", 1, found)
    for who, users, clients, workflow in (
        ("beside a user's flood", 1, FLOOD_CLIENTS, "steps"),
        ("beside a user's crowd", 1, CROWD_CLIENTS, "steps"),
        ("beside a workflow's flood", FLOOD_USERS, FLOOD_CLIENTS, "others"),
    ):
        with service(plan.disk, DEFAULT) as server:
            tokens = [server.token_of(f"flood-{number}") for number in range(users)]
            orders = [submission(plan, token) for token in tokens]
            with _flood(server, orders, clients, seconds) as told:
                found = _calmly(plan, server, workflow, seconds)
            flooded = {"flood_per_s": told[0].per_s, "flood_refused": told[0].refused}
            yield Sample("flood", who, 1, found | flooded)


def _calmly(plan: Wanted, server: Service, workflow: str, seconds: float) -> Values:
    tokens = [server.token_of(f"calm-{number}") for number in range(CALM_USERS)]
    asked = [submission(plan, token, workflow, WAITS) for token in tokens]
    return _delays(server, asked, seconds, CALM_REST_S)


@contextmanager
def _flood(
    server: Service, requests: Sequence[bytes], clients: int, seconds: float
) -> Iterator[list[Answers]]:
    """Ask as much as they can from now on; the answers are known afterwards."""
    told: list[Answers] = []

    def run() -> None:
        lasts_s = seconds + 2 * AHEAD_S
        told.append(again_and_again(server.url, requests, clients, lasts_s))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(AHEAD_S)
    try:
        yield told
    finally:
        thread.join()


def _delays(server: Service, asked: Sequence[bytes], seconds: float, rest_s: float) -> Values:
    """Measure the delays of one client: its keys are those of jobs that are not there yet."""
    found = one_client(server.url, asked, seconds, FRESH, rest_s)
    return {"p50_ms": found.p50_ms, "p99_ms": found.p99_ms, "per_s": found.per_s}


def burning(plan: Wanted) -> Iterator[Sample]:
    """burn: as many stages as cores less one use a core up each, while somebody asks for little."""
    seconds, stages = max(plan.seconds, LOOK_S), max((os.cpu_count() or 1) - 1, 1)
    with service(plan.disk, LARGE) as server:
        yield Sample("burn", "idle", 1, _delays(server, [PROBE], seconds, PROBE_REST_S))
        order = body("burning", seconds=seconds + LOOK_S)
        once_each(server.url, [request("POST", "/jobs", server.token, order)] * stages, 1)
        _until_running(server, stages)
        found = _delays(server, [PROBE], seconds, PROBE_REST_S)
        yield Sample("burn", f"{stages} burning", 1, found)


def telling(plan: Wanted) -> Iterator[Sample]:
    """tell: so many stages at a time, each telling every second how far it is. ``cores`` is how
    much of them the service used."""
    with service(plan.disk, LARGE) as server:
        idle_kib = resident_kib(*server.pids)
        order = body("telling", seconds=TELLING_S + plan.telling // 100)
        made = [request("POST", "/jobs", server.token, order)] * plan.telling
        once_each(server.url, made, ASKING)
        _until_running(server, plan.telling)
        for half in ("first half", "second half"):
            watch = Watch(server)
            found = _delays(server, [PROBE], max(plan.seconds, LOOK_S), PROBE_REST_S)
            cores = watch.costs(1)["cpu_ms"] / 1000 / watch.seconds
            each = (resident_kib(*server.pids) - idle_kib) / plan.telling
            yield Sample("tell", half, plan.telling, found | {"cores": cores, "kib_each": each})


def _until_running(server: Service, stages: int) -> None:
    while server.figure("jobrunner_attempts_running") < stages:
        time.sleep(POLL_S)
