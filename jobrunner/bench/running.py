"""Jobs taken, and jobs run: W1, W2 and W3."""

import hashlib
import hmac
import json
import time
from base64 import b64encode
from collections.abc import Iterator

from jobrunner.bench.clients import once_each
from jobrunner.bench.load import request
from jobrunner.bench.measuring import (
    LIMITS,
    WARM_CLIENTS,
    Sample,
    Values,
    Wanted,
    Watch,
    closed_loop,
    numbered,
    submission,
)
from jobrunner.bench.servers import KEY, Service, reference, service
from jobrunner.bench.workloads import body

WAITS = "/jobs?wait=30"
ASKING = 64
BELLS = 5_000
SETTLED_S = 0.2


def submitting(plan: Wanted) -> Iterator[Sample]:
    """W1: jobs are taken, and nothing is done about them."""
    for clients in plan.clients:
        for kind in ("bare", "R"):
            with reference(plan.disk, kind) as server:
                found = closed_loop(server, [submission(plan, "any")], clients, plan.seconds)
                yield Sample("W1", kind, clients, found)
        for who, limits in LIMITS.items():
            with service(plan.disk, limits, ("steps",)) as server:
                asked = submission(plan, server.token_of("ann"))
                found = closed_loop(server, [asked], clients, plan.seconds)
                yield Sample("W1", who, clients, found)


def submitting_meanwhile(plan: Wanted) -> Iterator[Sample]:
    """W1run: jobs are taken while those that were taken run."""
    for clients in plan.clients:
        for who, limits in LIMITS.items():
            with service(plan.disk, limits) as server:
                asked = submission(plan, server.token_of("ann"))
                before = server.jobs("steps", "done"), time.perf_counter()
                found = closed_loop(server, [asked], clients, plan.seconds)
                ended = server.jobs("steps", "done") - before[0]
                found["ended_per_s"] = ended / (time.perf_counter() - before[1])
                yield Sample("W1run", who, clients, found)


def running(plan: Wanted) -> Iterator[Sample]:
    """W2: a job of three stages, from its submission to its end, in one request."""
    for clients in plan.clients:
        for who, limits in LIMITS.items():
            with service(plan.disk, limits) as server:
                yield Sample("W2", who, clients, run_to_end(plan, server, clients))


def run_to_end(plan: Wanted, server: Service, clients: int) -> Values:
    """``early`` are jobs that somebody was told of before they had ended; those of clients who
    went away in the middle are none."""
    asked = submission(plan, server.token_of("ann"), path=WAITS)
    found = closed_loop(server, [asked], clients, plan.seconds)
    every, done = _counted(server)
    return found | {"early": max(every - done - clients - WARM_CLIENTS, 0)}


def _counted(server: Service) -> tuple[int, int]:
    states = ("queued", "step_1", "step_2", "step_3", "done", "failed")
    jobs = {state: server.jobs("steps", state) for state in states}
    return sum(jobs.values()), jobs["done"]


def running_many(plan: Wanted) -> Iterator[Sample]:
    """W2t: the same by throughput; the clock stops when the last has ended."""
    for who, limits in LIMITS.items():
        with service(plan.disk, limits) as server:
            template = submission(plan, server.token_of("ann"))
            once_each(server.url, [numbered(template, one) for one in range(100)], ASKING)
            server.wait_until("steps", "done", 100)
            requests = [numbered(template, 1000 + one) for one in range(plan.batch)]
            watch = Watch(server)
            answered = once_each(server.url, requests, ASKING)
            server.wait_until("steps", "done", 100 + answered.good)
            found = {"per_s": answered.good / watch.seconds, "refused": answered.refused}
            yield Sample("W2t", who, ASKING, found | watch.costs(answered.good, answered.used_s))


def ringing(plan: Wanted) -> Iterator[Sample]:
    """W3: a webhook to each parked job, until the last has ended."""
    for who, limits in LIMITS.items():
        with service(plan.disk, limits) as server:
            park(server, BELLS)
            bells = [_bell(number) for number in range(BELLS)]
            watch = Watch(server)
            answered = once_each(server.url, bells, ASKING)
            server.wait_until("parked", "done", answered.good)
            found = {"per_s": answered.good / watch.seconds, "refused": answered.refused}
            found["accepted_per_s"] = answered.per_s
            yield Sample("W3", who, ASKING, found | watch.costs(answered.good, answered.used_s))


def park(server: Service, jobs: int, first: int = 0) -> float:
    """Let so many jobs wait for their webhooks; how many were made in a second."""
    began, had = time.perf_counter(), server.figure("jobrunner_attempts_parked")
    token = server.token_of(f"owner-{first}")
    for start in range(first, first + jobs, 10_000):
        numbers = range(start, min(start + 10_000, first + jobs))
        made = [request("POST", "/jobs", token, _order(number)) for number in numbers]
        once_each(server.url, made, ASKING)
    while server.figure("jobrunner_attempts_parked") < had + jobs:
        time.sleep(SETTLED_S)
    return jobs / (time.perf_counter() - began)


def _order(number: int) -> bytes:
    return body("parked", order_id=f"bell-{number}")


def _bell(number: int) -> bytes:
    """A webhook, signed as its provider would."""
    text = json.dumps({"id": f"bell-{number}"}).encode()
    name, at = f"message-{number}", str(int(time.time()))
    signed = hmac.digest(KEY, f"{name}.{at}.".encode() + text, hashlib.sha256)
    signature = f"v1,{b64encode(signed).decode()}"
    return request("POST", "/webhooks/bell", "", text, webhook_id=name, webhook_timestamp=at,
                   webhook_signature=signature)  # fmt: skip
