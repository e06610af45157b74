"""With which certificates does a principal publish, as the type's manager answers?

A broker that opens a sealed frame asks about its signer. An answer is
remembered, the oldest are forgotten first, and an answer to no question is refused.
"""

from __future__ import annotations

from typing import Final

from maia.bounded_map import BoundedMap
from maia.credentials import Principal, SignedCertificate, certificate_from_bytes
from maia.wire.messages import Writer

__all__ = ["MemberWriters"]

_ASKED_MAX: Final = 1024


class MemberWriters:
    """The publishers that this member has answers about, and those that it has asked about."""

    __slots__ = ("_answers", "_asked")

    def __init__(self, remembered_max: int) -> None:
        """Remember so many publishers at most."""
        self._answers: BoundedMap[tuple[bytes, Principal], tuple[SignedCertificate, ...]] = BoundedMap(
            remembered_max
        )
        self._asked: BoundedMap[tuple[bytes, Principal], None] = BoundedMap(_ASKED_MAX)

    def get(self, type_id: bytes, principal: Principal) -> tuple[SignedCertificate, ...] | None:
        """Return a publisher's certificates; None if they have not arrived yet."""
        return self._answers.get((type_id, principal))

    def is_asking(self, type_id: bytes, principal: Principal) -> bool:
        """Say whether an answer about a publisher is awaited."""
        return (type_id, principal) in self._asked

    def ask(self, type_id: bytes, principal: Principal) -> None:
        """Take note that the manager is being asked."""
        self._asked.put((type_id, principal), None)

    def tell(self, message: Writer) -> bool:
        """Remember an answer; say whether it was asked for."""
        about = message.type_id, Principal(message.principal)
        if about not in self._asked:
            return False
        self._asked.pop(about)
        self._answers.put(about, tuple(certificate_from_bytes(one) for one in message.credentials))
        return True

    def link_lost(self) -> None:
        """Take note that no answer will come any more."""
        self._asked.clear()
