"""How does the owner of a type want its events protected on the way?

The owner chooses in the signed definition: nothing (plaintext), the events as
a whole, or attribute by attribute (dissertation, sections 7.1 and 7.2).
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

__all__ = [
    "ADDRESSES_MAX",
    "BadSealing",
    "Sealing",
    "SealingLevel",
    "SealingWeakened",
    "is_weaker",
    "strongest",
]

ADDRESSES_MAX: Final = 16
"""How many addresses of its key manager a definition may name."""

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
class Sealing:
    """The owner's choice: the level, who runs the key groups, and hints where that manager listens.

    An address proves nothing. The dialling side checks the manager's key.
    """

    level: SealingLevel
    manager: Principal
    addresses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no definition could carry."""
        if len(self.addresses) > ADDRESSES_MAX:
            raise BadSealing(f"a definition names at most {ADDRESSES_MAX} addresses of its key manager")
        if len(set(self.addresses)) != len(self.addresses):
            raise BadSealing("a definition names the same address of its key manager twice")
        for address in self.addresses:
            if _ADDRESS.fullmatch(address) is None:
                raise BadSealing("an address of a key manager has 1 to 256 visible ASCII characters")


_STRENGTH: Final = {None: 0, SealingLevel.EVENT: 1, SealingLevel.ATTRIBUTE: 2}


def is_weaker(sealing: Sealing | None, *, than: Sealing | None) -> bool:
    """Say whether one choice protects less than another; plaintext < event < attribute."""
    return _strength(sealing) < _strength(than)


def strongest(sealings: Iterable[Sealing | None]) -> Sealing | None:
    """Return the choice that protects most, the last one among equals."""
    found: Sealing | None = None
    for sealing in sealings:
        if not is_weaker(sealing, than=found):
            found = sealing
    return found


def _strength(sealing: Sealing | None) -> int:
    return _STRENGTH[None if sealing is None else sealing.level]
