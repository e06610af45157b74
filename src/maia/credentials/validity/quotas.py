"""How much may each issuer say before a verifier stops listening to it?

What is held is bounded, and no issuer, nor a few together, can take the room
of the others: up to an equal share each is always accepted. Otherwise an insider
that lists certificates until a verifier is full would put off the revocations
of all other issuers. Issuers are counted, and not the numberings that they use:
an issuer that was accepted once is accepted in all of its numberings, and one that
uses all of them takes no more places than who uses one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from maia.credentials.principals import Principal
from maia.credentials.validity.contents import weight_of
from maia.credentials.validity.errors import StandingFull
from maia.credentials.validity.series import Series, SeriesKind

__all__ = ["IDS_KEPT_MAX", "IDS_OF_ONE_MAX", "ISSUERS_MAX", "SHARES_MIN", "check_issuer", "check_room"]

ISSUERS_MAX: Final = 4096
"""How many issuers are remembered; each has one series of every kind, and no more than that."""

IDS_KEPT_MAX: Final = 1_000_000
"""How many certificates and facts all that is held may name, where an issuer wants more than its share."""

IDS_OF_ONE_MAX: Final = 250_000
"""How many of them one series may name, as long as there is room."""

SHARES_MIN: Final = 16
"""The room is shared by all remembered issuers, and by no fewer: each of 16 can have three full lists."""

_Key = tuple[Principal, SeriesKind]


def check_issuer(held: Mapping[_Key, Series], by: Principal) -> None:
    """Raise if `by` is new, and there is no room for one more issuer."""
    if len(held) < ISSUERS_MAX or any((by, kind) in held for kind in SeriesKind):
        return
    if len({one for one, _ in held}) >= ISSUERS_MAX:
        raise StandingFull(f"statements of {ISSUERS_MAX} issuers are held, and there is no room for more")


def check_room(held: Mapping[_Key, Series], key: _Key, after: Series, *, ids_kept: int) -> None:
    """Raise if there is no room for a series to become `after`; `ids_kept` are named by all that is held."""
    before = held.get(key)
    weight = weight_of(after)
    grown = weight - (0 if before is None else weight_of(before))
    share = IDS_KEPT_MAX // max(SHARES_MIN, len(held) + (before is None))
    # Within its share an issuer is accepted even where others have filled the room.
    if grown <= 0 or weight <= share:
        return
    if weight > IDS_OF_ONE_MAX:
        raise StandingFull(f"the statements of one issuer name more than {IDS_OF_ONE_MAX} certificates")
    if ids_kept + grown > IDS_KEPT_MAX:
        raise StandingFull(f"statements on {IDS_KEPT_MAX} certificates are held, and there is no room")
