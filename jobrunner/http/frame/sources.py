"""The sources of webhooks that this service takes, with the secrets of each; and the log of
webhooks from all others.

Secrets come from the environment, by the names that stand in the settings, and from companions,
which sign with secrets of their own. None is ever logged, and neither is what was sent.
"""

from collections.abc import Callable, Mapping, Sequence

from jobrunner.core.features.signatures import KEY_BYTES, MARK, key_in, verified
from jobrunner.errors import Refused
from jobrunner.ports import Clock
from jobrunner.stages.sources import Source

LINES_MAX = 10
LINES_EVERY_S = 60.0

Secrets = Callable[[str], Sequence[str]]


class Sources:
    """``keys`` are those of the environment, by source; ``lent`` gives the secrets of companions
    as they are now."""

    def __init__(
        self,
        known: Mapping[str, Source],
        keys: Mapping[str, Sequence[bytes]],
        lent: Secrets,
        clock: Clock,
        log: Callable[..., None],
    ) -> None:
        self._known = known
        self._keys = keys
        self._lent = lent
        self._clock = clock
        self._log = log
        self._lines: dict[str, tuple[float, int]] = {}

    def named(self, name: str) -> Source:
        """Raises: Refused NOT_FOUND."""
        found = self._known.get(name)
        if found is None:
            raise Refused("NOT_FOUND", "no plugin here hears webhooks of this source")
        return found

    def verified(self, source: Source, headers: Mapping[str, str], body: bytes) -> str:
        """The id of the webhook.

        Raises: Refused UNAUTHORIZED.
        """
        webhook_id = verified(headers, body, self._of(source.name), self._clock.now() / 1000)
        if webhook_id is None:
            self.say("webhook.refused", "warning", source=source.name, bytes=len(body))
            raise Refused("UNAUTHORIZED", "the webhook is not signed as one of this source is")
        return webhook_id

    def say(self, event: str, level: str, **fields: object) -> None:
        """A line of the log; ten a minute of each event. The next one after that says how many
        were left out."""
        now = self._clock.monotonic()
        since, said = self._lines.get(event, (now, 0))
        if now - since >= LINES_EVERY_S:
            left_out = max(said - LINES_MAX, 0)
            fields |= {"left_out": left_out} if left_out else {}
            since, said = now, 0
        self._lines[event] = (since, said + 1)
        if said < LINES_MAX:
            self._log(event, level=level, **fields)

    def _of(self, name: str) -> list[bytes]:
        lent = (key_in(secret) for secret in self._lent(name))
        return [*self._keys.get(name, ()), *(key for key in lent if key is not None)]


def keys_of(
    variables: Sequence[str], environ: Mapping[str, str]
) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """The keys that these variables hold, and a sentence for each that holds none."""
    keys: list[bytes] = []
    faults: list[str] = []
    for variable in variables:
        key = key_in(environ.get(variable, "").strip())
        if key is not None:
            keys.append(key)
        elif variable in environ:
            faults.append(
                f"the variable {variable} holds no secret: that is {MARK} and base64 of "
                f"{KEY_BYTES[0]} to {KEY_BYTES[-1]} bytes"
            )
        else:
            faults.append(f"the variable {variable} is not there; set it to the source's secret")
    return tuple(keys), tuple(faults)
