"""The whole service under whatever requests come to mind: real HTTP, real file, real restarts.

The eight properties that all five lifecycles share are looked at from outside, through what any
client can read: after each request what it did, and at the end of each story all of it again.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jobrunner import app
from jobrunner.config.settings import (
    Config,
    PluginsSection,
    QuotaSettings,
    RetrySettings,
    ServerSection,
    StoreSection,
    WorkflowSettings,
)
from tests.whole.process import Said, event

OUTSIDE = {"*": "external"}
SOON = RetrySettings(base=0.01, factor=1, jitter=0)
ORDERS: dict[str, list[dict[str, Any]]] = {
    "cutx": [
        {"job_type": "static_ad", "params": {"product_id": "shoe"}},
        {"job_type": "copy", "params": {"product_id": "hat"}},
        {"job_type": "scrape", "params": {"url": "https://example.org/"}},
    ],
    "image-generation": [{"params": {"prompt": "a pier"}}, {"params": {"prompt": "a dune"}}],
    "howera": [{}],
    "asset-pattern": [{"job_type": "export"}],
    "ss": [{"params": {"requirement": "a report"}}],
}
COMMANDS = {
    "cutx": ["cancel", "retry", "refund"],
    "image-generation": ["annotate"],
    "howera": ["cancel", "start-upload", "confirm-upload", "run", "edit", "fail"],
    "asset-pattern": [],
    "ss": ["freeze-plan", "confirm", "run", "retry"],
}
FIELDS = {
    "annotate": {"note": "seen"},
    "confirm-upload": {"video_uri": "file:clip"},
    "confirm": {"confirmed": True},
    "fail": {"failure_code": "BAD", "failure_message": "no", "failed_stage": "EXPORTING"},
}
FAILED = {"failure_code": "BAD", "failure_message": "it broke", "failed_stage": "GENERATING"}
REPORTS: list[dict[str, Any]] = [
    {},
    FAILED,
    FAILED | {"retryable": False},
    {"result": {"text": "done"}},
    {"assets": [{"asset_type": "image", "url": "https://example.org/p.png"}]},
    {"artifact_updates": {"video_uri": "file:clip", "export_uri": "file:pdf"}},
]
FULL = {
    "result": {"text": "done"},
    "assets": [{"asset_type": "image", "url": "https://example.org/p.png"}],
    "artifact_updates": {"video_uri": "file:clip", "export_uri": "file:pdf", "draft": "a draft"},
}
WHO = ("worker", "worker", "admin", "owner", "owner", "stranger")
QUIET = ("updated_at", "heartbeat_at", "progress", "progress_message", "deadline_at", "allowed")


def config(folder: Path) -> Config:
    workflows = {name: WorkflowSettings(stages=OUTSIDE) for name in ORDERS}
    pictures = WorkflowSettings(
        stages=OUTSIDE, retry={"running": SOON}, quota=QuotaSettings(open_jobs=0, per_minute=0)
    )
    return Config(
        server=ServerSection(port=0, drain_seconds=1),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
        plugins=PluginsSection(path=str(folder / "none")),
        workflows=workflows | {"image-generation": pictures},
    )


class House:
    """One life of the service after the other, in this process, on one folder."""

    def __init__(self, folder: Path, portal: BlockingPortal) -> None:
        self.logged: list[dict[str, Any]] = []
        self.tokens: dict[str, str] = {}
        self._folder = folder
        self._portal = portal
        self._life = ExitStack()

    def live(self) -> None:
        """Leaves the life before, if there was one, and begins another."""
        self.leave()
        self._life.enter_context(self._portal.wrap_async_context_manager(self._living()))

    def leave(self) -> None:
        self._life.close()

    def ask(self, who: str, method: str, path: str, body: Any = None) -> Said:
        said: Said = self._portal.call(self._ask, who, method, path, body)
        assert said.status != 500, said
        return said

    def token(self, name: str, role: str) -> None:
        made = self.ask("admin", "POST", "/admin/tokens", {"name": name, "role": role})
        self.tokens[name] = made.body["token"]

    def faults(self) -> tuple[str, ...]:
        return self._portal.call(self._service.store.check)

    def denials(self) -> int:
        return sum(line["event"] == "job.transition_denied" for line in self.logged)

    @asynccontextmanager
    async def _living(self) -> AsyncIterator[None]:
        def log(event: str, level: str = "info", **fields: Any) -> None:
            self.logged.append({"event": event, "level": level, **fields})

        async with (
            app.running(config(self._folder), log) as service,
            aiohttp.ClientSession() as session,
        ):
            self._service, self._session = service, session
            if service.first_token:
                self.tokens["admin"] = service.first_token
            yield

    async def _ask(self, who: str, method: str, path: str, body: Any) -> Said:
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        url = self._service.url + path
        async with self._session.request(method, url, json=body, headers=headers) as answer:
            raw = await answer.json(content_type=None) if answer.status != 204 else None
            return Said(answer.status, raw, answer.headers)


class Story(RuleBasedStateMachine):
    """Rules are requests; what each of them may do is checked where it is sent."""

    jobs = Bundle("jobs")
    sent = Bundle("sent")

    house: ClassVar[House]
    number: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        Story.number += 1
        self._users = (f"ada-{self.number}", f"bob-{self.number}")
        self._edges: dict[str, set[tuple[str | None, str]]] = {}
        self._finals: dict[str, set[str]] = {}
        self._made: dict[str, tuple[str, str]] = {}
        self._events: Counter[str] = Counter()
        self._restarted = False

    # ------------------------------------------------------------ requests

    @initialize(target=jobs)
    def begin(self) -> Any:
        """Each lifecycle is known by its own declaration, and has a job in it."""
        for user in self._users:
            self.house.token(user, "user")
        for name in ORDERS:
            shown = self._get(f"/workflows/{name}")
            self._edges[name] = {(edge["from"], edge["to"]) for edge in shown["edges"]}
            self._edges[name].add((None, shown["initial"]))
            self._finals[name] = {
                state["name"] for state in shown["states"] if state["kind"] == "final"
            }
        return multiple(*(self.submit_one(name, 0, self._users[0], None) for name in ORDERS))

    @rule(
        target=jobs,
        name=st.sampled_from(sorted(ORDERS)),
        number=st.integers(0, 2),
        first=st.booleans(),
        key=st.sampled_from([None, "one", "two"]),
    )
    def submit(self, name: str, number: int, first: bool, key: str | None) -> Any:
        """The same request at once again leads to the same job, and costs nothing more."""
        job = self.submit_one(name, number, self._users[not first], key)
        return job or multiple()

    def submit_one(self, name: str, number: int, who: str, key: str | None) -> str | None:
        body = {"workflow": name, **ORDERS[name][number % len(ORDERS[name])]}
        body |= {"idempotency_key": key} if key else {}
        before = self._purse(who)
        said = self.house.ask(who, "POST", "/jobs", body)
        if said.status == 402:
            assert self._purse(who) == before
            return None
        assert said.status in (200, 201), said
        self._made[said.body["id"]] = (name, who)
        if key:
            paid = self._purse(who)
            again = self.house.ask(who, "POST", "/jobs", body)
            assert (again.status, again.body["id"]) == (200, said.body["id"])
            assert self._purse(who) == paid
        return str(said.body["id"])

    @rule(job=jobs, which=st.integers(0, 99), by_event=st.booleans(), well=st.booleans())
    def go_on(self, job: str, which: int, by_event: bool, well: bool) -> None:
        """A declared edge, with all that a guard could ask for."""
        possible = self._stands(job)["allowed"]["statuses"]
        if not possible:
            return
        to = possible[which % len(possible)]
        report = FAILED if to.lower() in ("failed", "dead_letter") else FULL if well else {}
        if by_event:
            self._events[job] += 1
            number = self._events[job] + 3
            body = event(f"event-{number}", to, number, **report)
            self._change(job, "worker", f"/internal/jobs/{job}/status", body)
        else:
            self._change(job, "admin", f"/jobs/{job}/transitions", {"to": to, **report})

    @rule(
        target=sent,
        job=jobs,
        to=st.data(),
        report=st.sampled_from(REPORTS),
        back=st.sampled_from([0, 0, 0, 0, 1, 2]),
        place=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def call_back(self, job: str, to: Any, report: Any, back: int, place: int) -> Any:
        """Mostly a new event, later than those before; sometimes an id or a time of the past."""
        self._events[job] += 1
        number = self._events[job] + 3
        body = event(f"event-{number - back}", self._some_status(job, to), number - place, **report)
        said = self._change(job, "worker", f"/internal/jobs/{job}/status", body)
        return (job, body) if said.status == 204 else multiple()

    @rule(callback=sent)
    def call_back_again(self, callback: tuple[str, Any]) -> None:
        """An accepted event, sent again at any later time, changes nothing."""
        job, body = callback
        before = self._stands(job)
        said = self.house.ask("worker", "POST", f"/internal/jobs/{job}/status", body)
        assert (said.status, said.body["replayed"]) == (200, True)
        self._unmoved(job, before)

    @rule(job=jobs, to=st.data(), who=st.sampled_from(WHO), report=st.sampled_from(REPORTS))
    def move(self, job: str, to: Any, who: str, report: Any) -> None:
        body = {"to": self._some_status(job, to), **report}
        self._change(job, who, f"/jobs/{job}/transitions", body)

    @rule(job=jobs, which=st.integers(0, 9), who=st.sampled_from(WHO))
    def command(self, job: str, which: int, who: str) -> None:
        names = COMMANDS[self._made[job][0]]
        if names:
            name = names[which % len(names)]
            self._change(job, who, f"/jobs/{job}/{name}", FIELDS.get(name, {}))

    @rule(job=jobs)
    def claim(self, job: str) -> None:
        self._change(job, "worker", f"/jobs/{job}/claim", {})

    @rule(job=jobs, progress=st.none() | st.integers(0, 100))
    def progress(self, job: str, progress: int | None) -> None:
        """However often it is told, it is no decided change."""
        before = self._stands(job)
        body = {} if progress is None else {"progress": progress}
        self.house.ask("worker", "POST", f"/jobs/{job}/progress", body)
        self._unmoved(job, before)

    @precondition(lambda self: not self._restarted)
    @rule()
    def restart(self) -> None:
        """Nothing that rests is different afterwards. (Once in a story: it takes its time.)"""
        self._restarted = True
        before = {job: self._stands(job) for job in self._made}
        self.house.live()
        for job, stood in before.items():
            self._unmoved(job, stood)

    # ------------------------------------------------------------ what must be so

    def teardown(self) -> None:
        for job, (name, _) in self._made.items():
            self._was_declared(job, name)
        for user in self._users:
            self._sums_up(user)
        assert self.house.faults() == ()
        assert not [line for line in self.house.logged if line["level"] == "error"]
        self.house.logged.clear()

    def _change(self, job: str, who: str, path: str, body: Any) -> Said:
        """Either one version more, or nothing but one line that says why not."""
        before, denials = self._stands(job), self.house.denials()
        said = self.house.ask(self._name(who, job), "POST", path, body)
        assert said.status < 500, said
        replayed = said.status == 200 and said.body["replayed"]
        if said.status >= 400 or replayed:
            self._unmoved(job, before)
            if said.status in (402, 409):
                assert self.house.denials() == denials + 1, said
        elif said.status == 204:
            self._one_later(job, before, body)
        elif not self._on_its_own(before):
            assert said.body["version"] - before["version"] in (0, 1)
            if said.body["version"] == before["version"]:
                self._unmoved(job, before)
        return said

    def _one_later(self, job: str, before: Any, body: Any) -> None:
        """An accepted event is a version, unless it only said how far the work is. (Pictures may
        have come back from their backoff since.)"""
        later = self._version(job) - before["version"]
        if later == 0:
            assert (before["workflow"], body["status"]) == ("asset-pattern", before["status"])
            self._unmoved(job, before)
        else:
            assert later == 1 or before["workflow"] == "image-generation"

    def _was_declared(self, job: str, name: str) -> None:
        moves = self._get(f"/jobs/{job}/history")["history"]
        way = [move["to_status"] for move in moves]
        for move in moves:
            assert (move["from_status"], move["to_status"]) in self._edges[name], moves
        assert [move["from_status"] for move in moves] == [None, *way[:-1]]
        assert not self._finals[name] & set(way[:-1]), "a final state was left"
        versions = [(move["version"], move["hop"]) for move in moves]
        assert versions == sorted(set(versions))
        accepted = Counter(move["event_id"] for move in moves if move["event_id"])
        by_event = {(move["event_id"], move["version"]) for move in moves if move["event_id"]}
        assert len(by_event) == len(accepted), "an event was applied twice"
        attempts = self._get(f"/jobs/{job}/attempts")["attempts"]
        assert sum(attempt["status"] != "ended" for attempt in attempts) <= 1

    def _sums_up(self, user: str) -> None:
        """For each job nothing, or its price; and never less than nothing in the purse."""
        rows = self._get("/credits/history?limit=100", user)["history"]
        assert all(row["balance_after"] >= 0 and row["held_after"] >= 0 for row in rows)
        sums: Counter[str] = Counter()
        for row in rows:
            sums[row["job_id"] or ""] += row["amount"]
        for job, total in sums.items():
            if job:
                assert total in (0, -self._get(f"/jobs/{job}")["credits"]["cost"]), rows
        assert self._purse(user)[0] == sum(sums.values())

    # ------------------------------------------------------------ asking

    def _name(self, who: str, job: str) -> str:
        owner = self._made[job][1]
        others = [user for user in self._users if user != owner]
        return {"owner": owner, "stranger": others[0]}.get(who, who)

    def _get(self, path: str, who: str = "admin") -> Any:
        said = self.house.ask(who, "GET", path)
        assert said.status == 200, said
        return said.body

    def _stands(self, job: str) -> Any:
        return self._get(f"/jobs/{job}")

    def _version(self, job: str) -> int:
        return int(self._stands(job)["version"])

    def _purse(self, who: str) -> tuple[int, int]:
        purse = self._get("/credits", who)
        return purse["balance"], purse["held"]

    def _on_its_own(self, job: Any) -> bool:
        """A timer of milliseconds is running: it may move between any two looks."""
        return (job["workflow"], job["status"]) == ("image-generation", "failed")

    def _unmoved(self, job: str, before: Any) -> None:
        if not self._on_its_own(before):
            now = self._stands(job)
            assert _firm(now) == _firm(before)

    def _some_status(self, job: str, data: Any) -> str:
        """More often than not one that is possible."""
        names = sorted({to for _, to in self._edges[self._made[job][0]]})
        possible = self._stands(job)["allowed"]["statuses"]
        return str(data.draw(st.sampled_from(possible * 3 + names)))


def _firm(job: Any) -> Any:
    return {name: value for name, value in job.items() if name not in QUIET}


PHASES = (Phase.generate,)  # a story told twice is not the same: real timers run in it


def tell(folder: Path, stories: int, steps: int) -> None:
    with start_blocking_portal("asyncio") as portal:
        Story.house = House(folder, portal)
        Story.house.live()
        Story.house.token("worker", "workflow")
        try:
            run_state_machine_as_test(
                Story,
                settings=settings(
                    max_examples=stories,
                    phases=PHASES,
                    stateful_step_count=steps,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            Story.house.leave()


def test_stories(tmp_path: Path) -> None:
    """R1-R6, and the eight properties common to all lifecycles."""
    tell(tmp_path, stories=25, steps=40)


@pytest.mark.long
def test_many_stories(tmp_path: Path) -> None:
    """R1-R6, at length."""
    tell(tmp_path, stories=300, steps=60)
