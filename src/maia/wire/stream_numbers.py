"""Does a frame come too late, after a later one of its stream?

Brokers ask before they deliver and before they take a frame for a publisher's
last word, and clients before they show one to the application. Without a
signature a number proves nothing, so no number may silence what comes after
it (A85): a frame is late if its number is a little below the newest one, and
a number far below says that the newest was no true one, or that its publisher
has begun anew. Either way the stream goes on from there.
"""

from __future__ import annotations

from typing import Final

__all__ = ["NUMBERS_BEHIND_MAX", "is_late"]

NUMBERS_BEHIND_MAX: Final = 1 << 16
"""How many numbers below the newest one are late: far more frames than overtake each other."""


def is_late(sequence: int, *, newest: int) -> bool:
    """Say whether a frame was published before the newest one of its stream, as far as numbers tell."""
    return newest - NUMBERS_BEHIND_MAX <= sequence < newest
