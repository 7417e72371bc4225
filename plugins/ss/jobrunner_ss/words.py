"""Where the words of a requirement name a column.

Signs between the letters do not count: ``unit_price`` is named by "unit price" and by "Unit-Price".
The words are taken apart once; a name is then looked up in time that grows with their length,
whatever signs either of them is made of.
"""

import re
from bisect import bisect_left

WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
SIGNS = re.compile(r"[\W_]+")


class Words:
    """A requirement, in lower case: ``text``."""

    def __init__(self, text: str) -> None:
        self.text = text.lower()
        self._places: list[int] = []
        self._begins: list[int] = []
        self._ends: set[int] = set()
        parts = []
        for word in WORD.finditer(self.text):
            self._begins.append(len(self._places))
            for letters in re.finditer(r"[^\W_]+", word[0]):
                parts.append(letters[0])
                start = word.start() + letters.start()
                self._places += range(start, start + len(letters[0]))
            self._ends.add(len(self._places))
        self._plain = "".join(parts)
        self._known: dict[str, int | None] = {}

    def place(self, name: str) -> int | None:
        """Where it is first named as a word of its own, or None."""
        if name not in self._known:
            self._known[name] = self._found(SIGNS.sub("", name.lower()))
        return self._known[name]

    def _found(self, plain: str) -> int | None:
        at = self._plain.find(plain) if plain else -1
        while at >= 0:
            begin = bisect_left(self._begins, at)
            begins = begin < len(self._begins) and self._begins[begin] == at
            if begins and at + len(plain) in self._ends:
                return self._places[at]
            if begin + begins == len(self._begins):
                return None
            at = self._plain.find(plain, self._begins[begin + begins])
        return None
