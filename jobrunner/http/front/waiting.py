"""The very front: a submission waits here for its turn, as the bytes in which it came, or is turned
away with a prepared answer. To the server underneath it is no request yet: no task, no headers. Its
token is only looked at to tell in whose turn it waits.

Only whole and plainly written submissions are held back, one of a connection at a time, while
nothing else of that connection is under way. Everything else goes the ordinary way at once and
waits for its place there; so does all that follows on a connection of which it is no longer certain
where a request begins.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from jobrunner.errors import Refused
from jobrunner.http.frame import cors
from jobrunner.http.frame.endpoint import HttpDoor
from jobrunner.http.frame.refusals import Refusals
from jobrunner.http.front.admission import Admission
from jobrunner.http.front.framing import Framed, framed
from jobrunner.http.front.prepared import Prepared

READ_MAX = 64 * 1024
HELD_MAX = 16 * 1024
PIECES_MAX = 8
REQUEST_ID_MAX = 128
LATER_MAX_S = 4
NO_TURN = "more jobs come than can be made now; send it again after so many seconds"
REFUSED = Refused("OVERLOADED", NO_TURN)
BEARER = re.compile(rb"\r\nauthorization:[\t ]*+bearer[\t ]++([!-~]++)[\t ]*+\r\n", re.IGNORECASE)
GIVEN_ID = re.compile(rb"\r\nx-request-id:[\t ]*+([!-~]+)[\t ]*+\r\n", re.IGNORECASE)
NO_PLACE, PROMISED, TAKEN = range(3)


class Desk:
    """The state that all connections of a listener share. ``submissions`` are the calls that are
    held back, as they stand on the first line of a request, with their route."""

    def __init__(
        self, door: HttpDoor, submissions: Mapping[bytes, tuple[str, str]], fixed: Mapping[str, str]
    ) -> None:
        self.admission: Admission = door.limits.admission
        self.submissions = submissions
        self._origins = door.settings.cors
        self._meter = door.meter
        self._ids = door.ids
        self._keyring = door.keyring
        self._refusals = Refusals(door)
        self._answers = [
            Prepared(_no_turn(seconds), fixed) for seconds in range(1, LATER_MAX_S + 1)
        ]

    def owner_of(self, message: bytes) -> str:
        """Name the user who sent this, if the token is one that was here lately."""
        token = BEARER.search(message)
        return "" if token is None else self._keyring.remembered(token[1])

    def no_turn(self) -> Refused:
        return _no_turn(1 + self._later())

    def turned_away(self, message: bytes, about: Framed, waited_s: float) -> bytes:
        """The answer to it."""
        method, route = self.submissions[about.call]
        given = GIVEN_ID.search(message) if about.names_itself else None
        known = given is not None and len(given[1]) <= REQUEST_ID_MAX
        correlation_id = given[1].decode() if given and known else self._ids.fresh()
        self._meter.refused(REFUSED.code)
        self._meter.answered(route, method, REFUSED.status, waited_s)
        self._refusals.note_early(method, route, REFUSED, correlation_id)
        more = cors.written(message, self._origins)
        return self._answers[self._later()].written(correlation_id, more)

    def _later(self) -> int:
        return int(self._ids.jitter() * LATER_MAX_S)


class Front(web.RequestHandler):
    """``_owed`` is how much of a request the server underneath has still to get until the next one
    begins, and None when nobody can tell any more. It is ``_busy`` until it has answered what it
    got; that it waits for more it says a turn of the loop later, when the next may be here."""

    __slots__ = (
        "_about", "_begun", "_busy", "_desk", "_held", "_owed", "_pieces", "_place", "_stopped",
    )  # fmt: skip

    def __init__(self, server: web.Server, desk: Desk, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._desk = desk
        self._owed: int | None = 0
        self._busy = False
        self._begun = b""
        self._pieces = 0
        self._held = b""
        self._about = Framed(b"", 0)
        self._place = NO_PLACE
        self._stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Bound the memory of each read by what it may bring; as much as asyncio asks for is
        fetched from the system and given back every time, at several times the price of the
        read."""
        frugal: Any = transport
        if hasattr(frugal, "max_size"):
            frugal.max_size = READ_MAX
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._held and data:
            self._desk.admission.forget(self)
            data, self._held, self._owed = self._held + data, b"", None
        if self._owed == 0 and data and not self._busy and not self.writing_paused:
            data, self._begun = self._begun + data, b""
            self._receive(data)
        else:
            self.pass_on(data)

    def pause_reading(self) -> None:
        self._stopped = True
        super().pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Resume only what was paused: the server underneath asks for it with each body."""
        if self._stopped:
            self._stopped = False
            super().resume_reading(resume_parser)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._desk.admission.forget(self)
        self._held = self._begun = b""
        if self._place == PROMISED:
            self.leave()
            if self._messages and self._task_handler is not None:
                self._task_handler.cancel()  # it would stumble over a request without a connection
        super().connection_lost(exc)

    def close(self) -> None:
        """When the server stops: whoever waits hears of it."""
        if self._held:
            self._desk.admission.forget(self)
            self.turn_away(0.0)
        super().close()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        done = await super().finish_response(request, resp, start_time)
        self.answered()
        return done

    def answered(self) -> None:
        """Take what comes now for the next request: this one was answered in full."""
        self._busy = False

    async def come_in(self, whose: str) -> None:
        """A place for the submission that is under way, if it has none yet.

        Raises: Refused OVERLOADED.
        """
        if self._place == NO_PLACE and not await _turn(self._desk.admission, whose):
            raise self._desk.no_turn()
        self._place = TAKEN

    def leave(self) -> None:
        """Give the place back: whatever is still done for this request is in nobody's way."""
        if self._place != NO_PLACE:
            self._place = NO_PLACE
            self._desk.admission.leave()

    def go_in(self) -> None:
        """Go in: it is this one's turn."""
        data, self._held = self._held, b""
        self._enter(data)

    def turn_away(self, waited_s: float) -> None:
        held, self._held = self._held, b""
        if self.transport is not None:
            self.transport.write(self._desk.turned_away(held, self._about, waited_s))
            self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout

    def _receive(self, data: bytes) -> None:
        """The beginning of a request."""
        about = framed(data)
        if about is None:
            self._owed = None
            self.pass_on(data)
        elif about.call in self._desk.submissions:
            self._submitted(data, about)
        else:
            self._begin(data, about.size)

    def _submitted(self, data: bytes, about: Framed) -> None:
        if about.size != len(data) and self._is_worth_waiting(data, about):
            self._begun = data
            self._pieces += 1
            return
        self._pieces = 0
        if about.size != len(data) or len(data) > HELD_MAX:
            self._begin(data, about.size)
        elif self._desk.admission.enter():
            self._enter(data)
        else:
            self._held, self._about = data, about
            self._desk.admission.wait(self, self._desk.owner_of(data))

    def _is_worth_waiting(self, data: bytes, about: Framed) -> bool:
        """The rest of it will be here in a moment."""
        size = len(data) + 1 if about.size is None else about.size
        return len(data) < size <= HELD_MAX and self._pieces < PIECES_MAX

    def _enter(self, data: bytes) -> None:
        """Go in with a place that is its own until it leaves."""
        self._place = PROMISED
        self._begin(data, len(data))
        if not self._messages:
            self._owed = None
            self.leave()

    def _begin(self, data: bytes, size: int | None) -> None:
        """Hand over the beginning of a request of this size, if that is known."""
        self._owed, self._busy = size, True
        self.pass_on(data)

    def pass_on(self, data: bytes) -> None:
        """Hand bytes to the server underneath."""
        if data and self._owed is not None:
            self._owed = self._owed - len(data) if len(data) <= self._owed else None
        super().data_received(data)

    def _process_keepalive(self) -> None:
        """Leave a connection open that waits for its turn: it is not idle. For the rest of what was
        begun the server underneath has a time limit, and words when it is over."""
        if self._held:
            self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        elif self._begun:
            data, self._begun, self._owed = self._begun, b"", None
            self.pass_on(data)
        super()._process_keepalive()


class Turn:
    """The wait of a submission that came the ordinary way."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._decided: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def go_in(self) -> None:
        if self._decided.done():
            self._admission.leave()
        else:
            self._decided.set_result(True)

    def turn_away(self, waited_s: float) -> None:
        if not self._decided.done():
            self._decided.set_result(False)

    async def come(self) -> bool:
        try:
            return await self._decided
        except asyncio.CancelledError:
            self._admission.forget(self)
            if not self._decided.cancelled():
                self._admission.leave()
            raise


async def _turn(admission: Admission, whose: str) -> bool:
    """Take a place, if there is one."""
    if admission.enter():
        return True
    turn = Turn(admission)
    admission.wait(turn, whose)
    return await turn.come()


def _no_turn(seconds: int) -> Refused:
    return Refused("OVERLOADED", NO_TURN, retry_after_s=seconds)
