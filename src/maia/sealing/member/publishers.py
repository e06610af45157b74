"""Which certificates does a publisher have, according to the type's manager?

A broker that opens a sealed frame asks about its signer. An answer is
remembered, the oldest are forgotten first, and nothing is believed that
was not requested.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from maia.credentials import Principal, SignedCertificate, certificate_from_bytes
from maia.wire.messages import Writer

__all__ = ["MemberWriters"]

_ASKED_MAX: Final = 1024


class MemberWriters:
    """The known publishers, and those that were asked about."""

    __slots__ = ("_asked", "_max", "_told")

    def __init__(self, remembered_max: int) -> None:
        """Begin empty, and remember so many at most."""
        self._max = remembered_max
        self._told: OrderedDict[tuple[bytes, Principal], tuple[SignedCertificate, ...]] = OrderedDict()
        self._asked: OrderedDict[tuple[bytes, Principal], None] = OrderedDict()

    def get(self, type_id: bytes, principal: Principal) -> tuple[SignedCertificate, ...] | None:
        """Return a publisher's certificates; None if they have not arrived yet."""
        return self._told.get((type_id, principal))

    def is_asking(self, type_id: bytes, principal: Principal) -> bool:
        """Return whether an answer about a publisher is awaited."""
        return (type_id, principal) in self._asked

    def ask(self, type_id: bytes, principal: Principal) -> None:
        """Take note that the manager is being asked."""
        self._asked[type_id, principal] = None
        if len(self._asked) > _ASKED_MAX:
            self._asked.popitem(last=False)

    def tell(self, message: Writer) -> bool:
        """Remember an answer; return whether it was requested."""
        about = message.type_id, Principal(message.principal)
        if about not in self._asked:
            return False
        del self._asked[about]
        self._told[about] = tuple(certificate_from_bytes(one) for one in message.credentials)
        self._told.move_to_end(about)
        if len(self._told) > self._max:
            self._told.popitem(last=False)
        return True

    def link_lost(self) -> None:
        """Take note that no answer will come any more."""
        self._asked.clear()
