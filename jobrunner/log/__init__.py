"""The log: what happened, one event a line, for people or for programs.

1. The rooms announce events with fields and do not know who listens. There is one subscriber
   (``subscriber``); it withholds and cleans before a line has any form, so every form is as safe.
2. A form makes a line of an event (``forms``): one JSON object, or words for whoever sits before a
   terminal.
3. Lines leave through a thread of their own (``ports.lines``). A disk that is full or slow, and a
   reader who does not read, hold up nobody; what could not be written is counted and told.

Deliberately absent: levels by event or by room, a second place for the same lines, the network.
"""

from jobrunner.log.subscriber import FLUSH_AT_BYTES, WITHHELD, Log, bridge
from jobrunner.log.wanted import open_log

__all__ = ["FLUSH_AT_BYTES", "WITHHELD", "Log", "bridge", "open_log"]
