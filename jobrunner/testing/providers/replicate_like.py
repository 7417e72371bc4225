"""A provider that speaks as Replicate does: predictions, their files, and webhooks about them.

Routes: ``create``, ``get``, ``cancel``, ``secret``, ``files``.
"""

import asyncio
import random
import secrets
from collections import deque
from collections.abc import Callable
from functools import partial
from time import time
from typing import Any, Literal

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core.instants import text_of
from jobrunner.testing.providers.made import Made, picture
from jobrunner.testing.providers.mishaps import Refusal, WholeAnswer
from jobrunner.testing.providers.provider import Provider, Routes
from jobrunner.testing.providers.record import RecordedCall
from jobrunner.testing.providers.webhooks import (
    Delivery,
    Forgery,
    Post,
    SentWebhook,
    insisted,
    is_loopback,
    made_secret,
    send,
)

UNSAFE = "NSFW content detected. Try running it again, or try a different prompt."
PRIVATE = ("plan", "released", "hook", "events")
OVER = {"succeeded", "failed", "canceled"}
WORDS = {
    400: ("Bad request", "The request is not valid."),
    401: ("Unauthenticated", "You did not pass a valid authentication token"),
    402: ("Insufficient credit", "You have insufficient credit to run this model."),
    404: ("Not found", "The requested resource could not be found."),
    409: ("Conflict", "This idempotency key was used for another request."),
    422: ("Input validation failed", "- input is required"),
    429: ("Too many requests", "Request was throttled."),
    500: ("Internal server error", "Something went wrong."),
}

Produce = Callable[[dict[str, Any]], Any]


Ending = Literal["succeeded", "failed", "canceled"]


class Plan(Struct, frozen=True):
    """The course of a prediction: after ``takes_s`` it ends like this, or ``never``."""

    ends: Literal["succeeded", "failed", "canceled", "never"] = "succeeded"
    error: str = ""
    takes_s: float = 0
    webhook: Delivery = Delivery()


class StartedPrediction(Struct):
    """One piece of work, as it is told; and what the provider keeps to itself."""

    id: str
    model: str
    input: dict[str, Any]
    status: str
    created_at: str
    urls: dict[str, str]
    plan: Plan
    released: anyio.Event
    hook: str = ""
    events: tuple[str, ...] = ()
    version: str = ""
    output: Any = None
    error: str | None = None
    logs: str = ""
    started_at: str | None = None
    completed_at: str | None = None

    def told(self) -> bytes:
        told = {name: getattr(self, name) for name in self.__struct_fields__}
        for private in PRIVATE:
            del told[private]
        return msgspec.json.encode(told | {"metrics": {}, "webhook": self.hook or None})

    def lie(self) -> bytes:
        """Tell it as a forger would."""
        told = msgspec.json.decode(self.told())
        return msgspec.json.encode(told | {"status": "failed", "output": None, "error": "forged"})


class ReplicateLike(Provider):
    """``produce`` makes the output of an input: a ``Made`` or several, which are served as files,
    or anything else, which is told as it is. ``secret`` signs the webhooks."""

    def __init__(
        self, *, produce: Produce = picture, secret: str = "", port: int = 0, token: str = ""
    ) -> None:
        self.secret = secret or made_secret(secrets.token_bytes(24))
        self.sent: list[SentWebhook] = []
        self._produce = produce
        self._plans: deque[Plan] = deque()
        self._planned: list[Plan] = []
        self._usual = Plan()
        super().__init__(port=port, token=token)

    def plan(self, *plans: Plan) -> None:
        """Plan the next predictions, one each; after the last all goes well."""
        self._plans += plans
        self._planned += plans

    def usually(self, plan: Plan) -> None:
        """Plan every prediction that has no plan of its own."""
        self._usual = plan

    def release(self) -> None:
        """Lets go of the webhooks that were held so far."""
        for prediction in self.predictions.values():
            prediction.released.set()

    async def finish(self, prediction_id: str, ends: Ending = "succeeded") -> None:
        """Ends a prediction now, whatever its plan was; returns when its webhooks were sent."""
        prediction = self.predictions[prediction_id]
        if task := self._tasks.pop(prediction_id, None):
            task.cancel()
        self._end(prediction, ends)
        await self._tell(prediction, "completed")

    async def delivered(self, times: int = 1) -> None:
        """Returns when so many webhooks have been sent, the forged ones not counted."""
        await self.calls.until(lambda: sum(not one.forged for one in self.sent) >= times)

    async def over(self, prediction_id: str) -> None:
        """Returns when the prediction has ended; its webhooks may still be on their way."""
        await self.calls.until(lambda: self.predictions[prediction_id].status in OVER)

    def routes(self) -> Routes:
        create = ("/v1/predictions", "/v1/models/{owner}/{model}/predictions")
        return {
            "create": ("POST", create, self._create),
            "get": ("GET", ("/v1/predictions/{id}",), self._get),
            "cancel": ("POST", ("/v1/predictions/{id}/cancel",), self._cancel),
            "secret": ("GET", ("/v1/webhooks/default/secret",), self._secret),
            "files": ("GET", ("/files/{name}",), self.file),
        }

    def complaint(self, status: int) -> WholeAnswer:
        title, detail = WORDS.get(status, WORDS[500 if status >= 500 else 400])
        return _problem(status, title, detail)

    def refusal(self, call: RecordedCall, fault: Refusal) -> WholeAnswer:
        """Told by the prediction, which is made and fails."""
        self._plans.appendleft(Plan("failed", UNSAFE))
        return self._create(call) if call.route == "create" else self.complaint(400)

    def simulate(self, chance: random.Random, post: Post) -> None:
        super().simulate(chance, post)
        self._plans, self.sent = deque(self._planned), []

    def forget(self) -> None:
        super().forget()
        self.predictions: dict[str, StartedPrediction] = {}
        self._made: dict[int, StartedPrediction] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def settle(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def before(self, call: RecordedCall) -> None:
        prediction = self._made.get(call.number)
        if prediction is not None and prediction.plan.webhook.early:
            await self._go_through(prediction)

    async def after(self, call: RecordedCall) -> None:
        prediction = self._made.pop(call.number, None)
        if prediction is not None and not prediction.plan.webhook.early:
            task = asyncio.create_task(self._go_through(prediction))
            self._tasks[prediction.id] = task

    # ------------------------------------------------------------ what is asked

    def _create(self, call: RecordedCall) -> WholeAnswer:
        asked = call.json
        if not isinstance(asked, dict) or not isinstance(asked.get("input"), dict):
            return self.complaint(422)
        hook = asked.get("webhook") or ""
        if hook and not is_loopback(hook):
            return _problem(422, WORDS[422][0], "- webhook: this fake speaks to loopback only")
        plan = self._plans.popleft() if self._plans else self._usual
        prediction = self._born(call, asked, hook, plan)
        self.predictions[prediction.id] = self._made[call.number] = prediction
        return WholeAnswer(201, prediction.told())

    def _born(
        self, call: RecordedCall, asked: dict[str, Any], hook: str, plan: Plan
    ) -> StartedPrediction:
        new = self.token_of(13)
        base = f"{self.url}/v1/predictions/{new}"
        named = call.path.split("/")[3:5] if "/models/" in call.path else []
        events = asked.get("webhook_events_filter") or ("start", "completed")
        urls = {"get": base, "cancel": f"{base}/cancel"}
        return StartedPrediction(
            new, "/".join(named), asked["input"], "starting", _now(), urls, plan,
            anyio.Event(), hook, tuple(events), str(asked.get("version", "")),
        )  # fmt: skip

    def _get(self, call: RecordedCall) -> WholeAnswer:
        prediction = self.predictions.get(call.path.split("/")[3])
        return WholeAnswer(body=prediction.told()) if prediction else self.complaint(404)

    def _cancel(self, call: RecordedCall) -> WholeAnswer:
        prediction = self.predictions.get(call.path.split("/")[3])
        if prediction is None:
            return self.complaint(404)
        if prediction.status not in OVER:
            if task := self._tasks.pop(prediction.id, None):
                task.cancel()
            self._end(prediction, "canceled")
            self._tasks[prediction.id] = asyncio.create_task(self._tell(prediction, "completed"))
        return WholeAnswer(body=prediction.told())

    def _secret(self, call: RecordedCall) -> WholeAnswer:
        return WholeAnswer(body=msgspec.json.encode({"key": self.secret}))

    # ------------------------------------------------------------ what becomes of it

    async def _go_through(self, prediction: StartedPrediction) -> None:
        prediction.status, prediction.started_at = "processing", _now()
        await self._tell(prediction, "start")
        await anyio.sleep(prediction.plan.takes_s)
        if prediction.plan.ends != "never":
            self._end(prediction, prediction.plan.ends)
            await self._tell(prediction, "completed")

    def _end(self, prediction: StartedPrediction, status: Ending) -> None:
        prediction.status, prediction.completed_at = status, _now()
        if status == "succeeded":
            prediction.output = self._output(prediction)
        elif status == "failed":
            prediction.error = prediction.plan.error or "the model failed"
        self.calls.stir()

    def _output(self, prediction: StartedPrediction) -> Any:
        made = self._produce(prediction.input)
        if isinstance(made, Made):
            return self.keep(f"{prediction.id}-0", made)
        if isinstance(made, list) and made and all(isinstance(one, Made) for one in made):
            return [self.keep(f"{prediction.id}-{n}", one) for n, one in enumerate(made)]
        return made

    async def _tell(self, prediction: StartedPrediction, event: str) -> None:
        """The news as it is now, however long it takes to arrive."""
        if not prediction.hook or event not in prediction.events:
            return
        body, how = prediction.told(), prediction.plan.webhook
        await anyio.sleep(how.delay_s)
        if how.held:
            await prediction.released.wait()
        news = SentWebhook(f"msg_{self.token_of(12)}", event)
        if how.forged:
            forged = replace(news, id=f"msg_{self.token_of(12)}", forged=True)
            await self._send(prediction, forged, body)
        await insisted(how, partial(self._send, prediction, news, body))

    async def _send(self, prediction: StartedPrediction, news: SentWebhook, body: bytes) -> int:
        forged: Forgery = prediction.plan.webhook.forged if news.forged else ""
        status = await send(
            prediction.hook, self.secret, news.id, body, forged, prediction.lie(), self.post
        )
        self.sent.append(replace(news, answered=status))
        self.calls.stir()
        return status


def _now() -> str:
    return text_of(int(time() * 1000))


def _problem(status: int, title: str, detail: str) -> WholeAnswer:
    problem = {"title": title, "detail": detail, "status": status}
    return WholeAnswer(status, msgspec.json.encode(problem))
