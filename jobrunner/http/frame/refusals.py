"""One line of log for each refusal, with the id that its caller was told.

What the rooms below have said a line about already, with that id, is not said again. Who has no
token, and who is turned away because there are too many, can make us write as fast as he can ask;
of those so many lines a second are written, and the rest is counted.
"""

from jobrunner.errors import Refused
from jobrunner.http.frame.answering import HttpRequest
from jobrunner.http.frame.endpoint import HttpDoor

LINES_PER_S = 200
CROWDS = frozenset({"OVERLOADED", "RATE_LIMITED", "TOO_MANY_STREAMS", "UNAUTHORIZED"})


class Refusals:
    def __init__(self, door: HttpDoor) -> None:
        self._door = door
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def note(self, request: HttpRequest, refused: Refused, known: bool) -> None:
        """``known``: the caller brought a good token."""
        if refused.noted or not ((known and refused.code not in CROWDS) or self._has_room()):
            return
        job_id = request.fields.get("id") if "/jobs/{id}" in request.route else None
        about = request.correlation_id, job_id, request.client
        self._say(request.method, request.route, refused, *about)

    def note_early(self, method: str, route: str, refused: Refused, correlation_id: str) -> None:
        """Log one refusal out of a crowd, made before there was a request, or a look at whom a
        proxy speaks for."""
        if self._has_room():
            self._say(method, route, refused, correlation_id)

    def _say(
        self,
        method: str,
        route: str,
        refused: Refused,
        correlation_id: str,
        job_id: str | None = None,
        address: str | None = None,
    ) -> None:
        self._door.log(
            "http.refused",
            level="warning",
            method=method,
            route=route,
            status=refused.status,
            error_code=refused.code,
            job_id=job_id,
            address=address,
            correlation_id=correlation_id,
        )

    def _has_room(self) -> bool:
        second = int(self._door.clock.monotonic())
        if second != self._second:
            if self._left_out:
                self._door.log("http.refusals_left_out", level="warning", count=self._left_out)
            self._second, self._lines, self._left_out = second, 0, 0
        if self._lines >= LINES_PER_S:
            self._left_out += 1
            return False
        self._lines += 1
        return True
