"""The base of all providers here: a server on loopback, a script of faults, a record of calls."""

import random
import re
import secrets
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from email import message_from_bytes
from typing import Any, Self

import anyio
import anyio.lowlevel
from aiohttp import web
from yarl import URL

from jobrunner.outgoing.calls import Exchange, Reply
from jobrunner.testing.providers.made import Made
from jobrunner.testing.providers.mishaps import (
    Cut,
    Fault,
    Hang,
    Page,
    Refusal,
    Status,
    WholeAnswer,
    suffered,
    told_without_socket,
    works,
)
from jobrunner.testing.providers.record import Calls, RecordedCall
from jobrunner.testing.providers.webhooks import Post, posted

HOST = "127.0.0.1"
BODY_MAX = 256 * 1024**2
Handler = Callable[[RecordedCall], WholeAnswer]
Routes = dict[str, tuple[str, tuple[str, ...], Handler]]


class Provider(ABC):
    """``token``: whoever does not bear it is refused (empty: nobody is). ``port`` 0 takes a free
    one, and keeps it over a restart. ``embeds``: the routes whose answers carry pictures."""

    embeds: frozenset[str] = frozenset()

    def __init__(self, *, port: int = 0, token: str = "") -> None:
        self.token = token
        self.calls = Calls()
        self._port = port
        self._scripts: dict[str, deque[Fault | None]] = defaultdict(deque)
        self._written: dict[str, list[Fault | None]] = defaultdict(list)
        self._always: dict[str, Fault] = {}
        self._runner: web.AppRunner | None = None
        self._origin = ""
        self._chance: random.Random | None = None
        self.post: Post = posted
        self.forget()

    @property
    def url(self) -> str:
        return self._origin or f"http://{HOST}:{self._port}"

    def simulate(self, chance: random.Random, post: Post) -> None:
        """Begin anew, without memory and with all scripts, in a simulation: asked by ``reply``, it
        draws from ``chance`` what it makes up, and ``post`` delivers its webhooks."""
        self._scripts.clear()
        for name, faults in self._written.items():
            self._scripts[name].extend(faults)
        self.calls, self._chance, self.post = Calls(), chance, post
        self.forget()

    async def reply(self, asked: Exchange) -> Reply:
        """Answer without a socket, faults and all.

        Raises: RetryableFailure, PermanentFailure, as the way out of a stage would."""
        url = URL(asked.url)
        self._origin = str(url.origin())
        name, handler = self._route(asked.method, url.path)
        if handler is None:
            return self.complaint(404).reply(asked.url)
        data = asked.data.encode() if isinstance(asked.data, str) else asked.data
        form = data if isinstance(data, dict) else _parts(asked.headers, data)
        call = self._recorded(name, asked.method, url.path, asked.headers, data, form)
        fault = self._next(name)
        call.fault = type(fault).__name__ if fault else ""
        answer = self._answer(call, handler, fault)
        await self.before(call)
        try:
            inside = isinstance(fault, Page) and call.route in self.embeds
            told = None if inside else fault
            return told_without_socket(told, answer, asked)
        finally:
            await self.after(call)

    def _route(self, method: str, path: str) -> tuple[str, Handler | None]:
        for name, (verb, patterns, handler) in self.routes().items():
            if verb == method.upper() and any(_fits(pattern, path) for pattern in patterns):
                return name, handler
        return "", None

    def script(self, route: str, *faults: Fault | None) -> None:
        """Script the next calls of a route, one each; None is a good answer, and so is
        everything after the last."""
        self._known(route)
        self._scripts[route] += faults
        self._written[route] += faults

    def always(self, route: str, fault: Fault | None) -> None:
        """Set the fault of every call that no script speaks of; None takes it back."""
        self._known(route)
        if fault is None:
            self._always.pop(route, None)
        else:
            self._always[route] = fault

    async def called(self, route: str, times: int = 1) -> None:
        """Returns when so many calls of a route have come."""
        await self.calls.until(lambda: len(self.calls.of(route)) >= times)

    def never_twice(self, route: str) -> None:
        """Raises: AssertionError, where one wish came without a key or under more than one."""
        for wish, keys in self.calls.twice(route).items():
            asked = wish[:300].decode(errors="replace")
            raise AssertionError(f"{route}: one wish came under the keys {keys}:\n{asked}")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._origin, self._chance, self.post = "", None, posted
        self._stop = anyio.Event()
        self._runner = web.AppRunner(
            self._app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.05
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop: open calls get no answer, and all that the provider knew is gone."""
        self._stop.set()
        await self.settle()
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None
        self.forget()

    async def restart(self) -> None:
        """Restart on the same port, without its memory; scripts and the record of calls stay."""
        await self.stop()
        await self.start()

    # ------------------------------------------------------------ what each provider says itself

    @abstractmethod
    def routes(self) -> Routes:
        """Name → method, paths, handler."""

    @abstractmethod
    def complaint(self, status: int) -> WholeAnswer:
        """An error in the provider's own words."""

    @abstractmethod
    def refusal(self, call: RecordedCall, fault: Refusal) -> WholeAnswer:
        """Refuse, as a policy does."""

    async def before(self, call: RecordedCall) -> None:
        """The work is done, and nobody was told."""
        await anyio.lowlevel.checkpoint()

    async def after(self, call: RecordedCall) -> None:
        """The answer is on its way."""
        await anyio.lowlevel.checkpoint()

    async def settle(self) -> None:
        """Ends what goes on by itself."""
        await anyio.lowlevel.checkpoint()

    def forget(self) -> None:
        self._answers: dict[tuple[str, str], tuple[bytes, WholeAnswer]] = {}
        self._files: dict[str, Made] = {}

    def keep(self, name: str, made: Made) -> str:
        """The address of a file; its route is ``files``."""
        self._files[f"{name}.{made.ending}"] = made
        return f"{self.url}/files/{name}.{made.ending}"

    def file(self, call: RecordedCall) -> WholeAnswer:
        made = self._files.get(call.path.removeprefix("/files/"))
        if made is None:
            return self.complaint(404)
        return WholeAnswer(body=made.content, content_type=made.content_type)

    # ------------------------------------------------------------ one call

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=BODY_MAX)
        for name, (method, paths, handler) in self.routes().items():
            for path in paths:
                app.router.add_route(method, path, self._serving(name, handler))
        return app

    def _serving(
        self, name: str, handler: Handler
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            call = await self._noted(name, request)
            fault = self._next(name)
            call.fault = type(fault).__name__ if fault else ""
            answer = self._answer(call, handler, fault)
            await self.before(call)
            try:
                response = await self._told(request, call, answer, fault)
                call.status = 0 if isinstance(fault, Hang | Cut) else response.status
                self.calls.stir()
            finally:  # the work goes on when its caller has hung up
                await self.after(call)
            return response

        return serve

    def _answer(self, call: RecordedCall, handler: Handler, fault: Fault | None) -> WholeAnswer:
        if self.token and call.headers.get("authorization") != f"Bearer {self.token}":
            return self.complaint(401)
        if isinstance(fault, Refusal):
            return self.refusal(call, fault)
        answer = self._worked(call, handler) if works(fault) else WholeAnswer()
        if isinstance(fault, Status):
            said = self.complaint(fault.status)
            return WholeAnswer(said.status, said.body, said.content_type, fault.headers)
        return answer

    def _worked(self, call: RecordedCall, handler: Handler) -> WholeAnswer:
        """A key that is known is answered as the first time; nothing is done again."""
        known = self._answers.get((call.route, call.key)) if call.key else None
        if known is not None:
            call.replayed = known[0] == call.wish
            return known[1] if call.replayed else self.complaint(409)
        answer = handler(call)
        if call.method == "POST" and answer.status < 300:
            call.worked = True
            self._answers[call.route, call.key] = call.wish, answer
        return answer

    async def _told(
        self, request: web.Request, call: RecordedCall, answer: WholeAnswer, fault: Fault | None
    ) -> web.StreamResponse:
        inside = isinstance(fault, Page) and call.route in self.embeds
        if fault is not None and not inside:
            return await suffered(fault, request, answer, self._stop)
        response = answer.sent()
        await response.prepare(request)
        await response.write_eof()
        return response

    def _known(self, route: str) -> None:
        assert route in self.routes(), f"no route {route!r}; there are {', '.join(self.routes())}"

    def _next(self, name: str) -> Fault | None:
        script = self._scripts[name]
        return script.popleft() if script else self._always.get(name)

    async def _noted(self, name: str, request: web.Request) -> RecordedCall:
        is_form = request.content_type.startswith("multipart/")
        return self._recorded(
            name,
            request.method,
            request.path,
            request.headers,
            b"" if is_form else await request.read(),
            await _form(request) if is_form else {},
        )

    def _recorded(
        self, name: str, method: str, path: str, headers: Mapping[str, str], body: object,
        form: dict[str, Any],
    ) -> RecordedCall:  # fmt: skip
        known = {key.lower(): value for key, value in headers.items()}
        key, said = known.get("idempotency-key", ""), body if isinstance(body, bytes) else b""
        call = RecordedCall(len(self.calls) + 1, name, method, path, key, known, said, form)
        self.calls.add(call)
        return call

    def token_of(self, size: int) -> str:
        """A name that nobody guesses; in a simulation the same for the same seed."""
        return (
            secrets.token_hex(size) if self._chance is None else self._chance.randbytes(size).hex()
        )


def _parts(headers: Mapping[str, str], body: Any) -> dict[str, Any]:
    """A form that was put together by hand."""
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    if not kind.startswith("multipart/") or not isinstance(body, bytes):
        return {}
    whole = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    found: dict[str, Any] = {}
    for part in whole.walk():
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str):
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes), "a part of a form has no parts"
            known = part.get_filename()
            found |= {name: content if known else content.decode(), **_called(name, known)}
    return found


def _called(name: str, filename: str | None) -> dict[str, str]:
    return {f"{name}.filename": filename} if filename else {}


def _fits(pattern: str, path: str) -> bool:
    return re.fullmatch(re.sub(r"\\?\{\w+\\?\}", "[^/]+", re.escape(pattern)), path) is not None


async def _form(request: web.Request) -> dict[str, Any]:
    """Files as their bytes; what is named ``filename`` beside them is theirs."""
    form: dict[str, Any] = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            with value.file as file:
                form |= {name: file.read(), f"{name}.filename": value.filename}
        else:
            form[name] = value
    return form
