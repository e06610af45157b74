"""How does the owner of a type want its events protected on the way?

The owner chooses in the signed definition: nothing (plaintext), the events as
a whole, or attribute by attribute (dissertation, sections 7.1 and 7.2); and
for events as a whole, whether the type is recognised on the way (8.2).
Verifiers, brokers and key managers ask. A later version never protects less
than an earlier one, so the levels have an order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from maia.credentials.principals import Principal
from maia.errors import BadInput, BrokenCredential
from maia.events import AttributeUid

__all__ = [
    "ADDRESSES_MAX",
    "COVER_BYTES_MAX",
    "COVER_BYTES_MIN",
    "COVER_EVERY_MS_MAX",
    "COVER_EVERY_MS_MIN",
    "ENVELOPE_UID",
    "BadSealing",
    "Cover",
    "Sealing",
    "SealingLevel",
    "SealingWeakened",
    "is_weaker",
    "strongest",
]

ADDRESSES_MAX: Final = 16
"""How many addresses of its key manager a definition may name."""

COVER_EVERY_MS_MIN: Final = 10
COVER_EVERY_MS_MAX: Final = 3_600_000
"""How long the slots of a covered type are: a hundred frames a second at most, one an hour at least."""
COVER_BYTES_MIN: Final = 512
COVER_BYTES_MAX: Final = 1 << 16
"""How large the frames of a covered type are, before they are encrypted; a power of two."""

ENVELOPE_UID: Final = AttributeUid("maia-envelope")
"""The column of a blinded frame that says who published it; no attribute of a blinded type has this uid."""

_ADDRESS: Final = re.compile(r"[!-~]{1,256}")


class BadSealing(BadInput):
    """What a definition says of sealing contradicts itself or has no bounds."""

    code = "TYPE-SEALING"


class SealingWeakened(BrokenCredential):
    """A version protects its events less than a version it was made from."""

    code = "TYPE-SEALING-WEAKENED"


class SealingLevel(Enum):
    """What is sealed as one: all attributes of an event together, or each attribute alone."""

    EVENT = "event"
    ATTRIBUTE = "attribute"


@dataclass(frozen=True, slots=True)
class Cover:
    """How a publisher's broker fills the silence: one frame every so often, all of one size.

    A slot without an event is filled with a cover frame. An event waits for its slot.
    """

    every_ms: int
    size_bytes: int

    def __post_init__(self) -> None:
        """Refuse a rate or a size outside the limits."""
        if not COVER_EVERY_MS_MIN <= self.every_ms <= COVER_EVERY_MS_MAX:
            raise BadSealing(
                f"cover frames are sent every {COVER_EVERY_MS_MIN} to {COVER_EVERY_MS_MAX} milliseconds"
            )
        size = self.size_bytes
        if not COVER_BYTES_MIN <= size <= COVER_BYTES_MAX or size & (size - 1):
            raise BadSealing(
                f"covered frames have a power of two from {COVER_BYTES_MIN} to {COVER_BYTES_MAX} bytes"
            )


@dataclass(frozen=True, slots=True)
class Sealing:
    """The owner's choice: the level, who runs the key groups, and hints where that manager listens.

    An address proves nothing. The dialling side checks the manager's key.
    """

    level: SealingLevel
    manager: Principal
    addresses: tuple[str, ...] = ()
    blinded: bool = False
    """Whether the type travels under ids that change with each epoch."""
    cover: Cover | None = None

    def __post_init__(self) -> None:
        """Refuse what no definition could carry."""
        if self.blinded and self.level is not SealingLevel.EVENT:
            raise BadSealing("a blinded type is sealed at event level: attribute uids would tell which it is")
        if self.cover is not None and not self.blinded:
            raise BadSealing("cover frames are for blinded types: a type that shows its id needs none")
        if len(self.addresses) > ADDRESSES_MAX:
            raise BadSealing(f"a definition names at most {ADDRESSES_MAX} addresses of its key manager")
        if len(set(self.addresses)) != len(self.addresses):
            raise BadSealing("a definition names the same address of its key manager twice")
        for address in self.addresses:
            if _ADDRESS.fullmatch(address) is None:
                raise BadSealing("an address of a key manager has 1 to 256 visible ASCII characters")


_STRENGTH: Final = {None: 0, SealingLevel.EVENT: 1, SealingLevel.ATTRIBUTE: 2}


def is_weaker(sealing: Sealing | None, *, than: Sealing | None) -> bool:
    """Say whether one choice protects less than another; plaintext < event < attribute.

    Blinding and cover are never given up, and none of them makes up for a lower level.
    """
    return any(mine < theirs for mine, theirs in zip(_strength(sealing), _strength(than), strict=True))


def strongest(sealings: Iterable[Sealing | None]) -> Sealing | None:
    """Return the choice that protects most, the last one among equals; the level counts first."""
    found: Sealing | None = None
    for sealing in sealings:
        if _strength(sealing) >= _strength(found):
            found = sealing
    return found


def _strength(sealing: Sealing | None) -> tuple[int, bool, bool]:
    if sealing is None:
        return _STRENGTH[None], False, False
    return _STRENGTH[sealing.level], sealing.blinded, sealing.cover is not None
