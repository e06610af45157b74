"""What happened, in which order, and was it the same as last time?

The trace keeps the last few thousand steps for people, and a fingerprint of
all of them for tests: two runs of one seed are one run if their fingerprints
agree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

from maia.events import Instant

__all__ = ["STEPS_KEPT", "Step", "Trace"]

STEPS_KEPT: Final = 4096
"""How many steps are kept for people by default."""

_written: Final = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened at one place; `about` is a link, a number or a word."""

    at: int
    place: str
    what: str
    about: int | str

    def __str__(self) -> str:
        """Return the line that a person reads."""
        return f"{Instant(self.at)} {self.place:<12} {self.what} {self.about}"


class Trace:
    """The last steps, and the fingerprint of all."""

    __slots__ = ("_fingerprint", "_steps", "count")

    def __init__(self, kept: int = STEPS_KEPT) -> None:
        """Begin with nothing; keep the last `kept` steps."""
        self._steps: deque[tuple[int, str, str, int | str]] = deque(maxlen=kept)
        self._fingerprint = blake2b(digest_size=16)
        self.count = 0

    def add(self, at: int, place: str, what: str, about: int | str, data: bytes = b"") -> None:
        """Write one step down; `data` enters the fingerprint and is not kept."""
        self.count += 1
        self._steps.append((at, place, what, about))
        self._fingerprint.update(_written((at, place, what, about, data)))

    def __iter__(self) -> Iterator[Step]:
        """Return the steps that were kept, oldest first."""
        return (Step(*step) for step in self._steps)

    def tail(self, count: int) -> str:
        """Return the last `count` steps, a line each."""
        return "\n".join(str(Step(*step)) for step in list(self._steps)[-count:])

    @property
    def fingerprint(self) -> str:
        """Return what two runs have in common exactly if the same things happened in the same order."""
        return self._fingerprint.hexdigest()
