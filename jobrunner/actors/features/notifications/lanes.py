"""Limits the tries under way, so that a slow endpoint costs nobody else anything.

A lane is what one owner has at one host. It gets a few tries at a time; one, as long as the last
answer there was a failure; none while it rests, because its host asked for patience. A user's lane
has a pace too, since nobody knows whether whoever answers there has asked for it. All lanes
together get what ``ALL_AT_ONCE`` says. Memory only: after a restart every lane has credit again.
"""

ALL_AT_ONCE = 64
AT_ONCE = 4
AT_ONCE_HURT = 1
PER_SECOND = 20
BURST_S = 2.0
REST_S_MAX = 3600.0
LANES_MAX = 10_000


class Lane:
    """``ahead`` is the moment up to which its pace is used up: a burst runs ahead of the clock."""

    def __init__(self, *, paced: bool) -> None:
        self.paced = paced
        self.under_way = 0
        self.hurt = False
        self.rests_until = 0.0
        self.ahead = 0.0

    @property
    def opens_at(self) -> float:
        return max(self.rests_until, self.ahead - BURST_S)

    def has_room(self, now: float) -> bool:
        most = AT_ONCE_HURT if self.hurt else AT_ONCE
        return self.under_way < most and self.opens_at <= now

    def enter(self, now: float) -> None:
        self.under_way += 1
        if self.paced:
            self.ahead = max(self.ahead, now) + 1 / PER_SECOND

    def is_idle(self, now: float) -> bool:
        return not self.under_way and max(self.rests_until, self.ahead) <= now


class Lanes:
    """``now`` is monotonic time in seconds."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self.under_way = 0

    @property
    def room(self) -> int:
        return ALL_AT_ONCE - self.under_way

    def enter(self, name: str, now: float) -> bool:
        lane = self._lanes.get(name) or Lane(paced=not name.startswith("workflow:"))
        if self.room <= 0 or not lane.has_room(now):
            return False
        self._lanes[name] = lane
        lane.enter(now)
        self.under_way += 1
        return True

    def leave(self, name: str, now: float, *, hurt: bool, rest_s: float = 0) -> None:
        lane = self._lanes[name]
        lane.under_way -= 1
        self.under_way -= 1
        lane.hurt = hurt
        if rest_s > 0:
            lane.rests_until = max(lane.rests_until, now + min(rest_s, REST_S_MAX))
        if lane.is_idle(now) and not hurt:
            del self._lanes[name]
        elif len(self._lanes) > LANES_MAX:
            self._forget_one(now)

    def closed(self, now: float) -> tuple[str, ...]:
        return tuple(name for name, lane in self._lanes.items() if not lane.has_room(now))

    def next_open(self, now: float) -> float | None:
        """When the first of those that rest, or have used up their pace, may be used again."""
        opening = (lane.opens_at for lane in self._lanes.values())
        return min((at for at in opening if at > now), default=None)

    def wake(self, name: str) -> None:
        """Try this lane again now: somebody wants it."""
        if lane := self._lanes.get(name):
            lane.rests_until = 0.0

    def _forget_one(self, now: float) -> None:
        """The oldest that is neither used nor resting; one that is hurt will hurt again."""
        idle = (name for name, lane in self._lanes.items() if lane.is_idle(now))
        if (name := next(idle, None)) is not None:
            del self._lanes[name]
