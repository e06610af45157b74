"""Which types does this member need the keys of, and what is it waiting for about each?

A member looks here for the type that a message or a moment is about. Of what
was kept from before a restart only the newest signed epoch of each type is
believed, and only if the type's manager signed it (A82).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.credentials import Principal
from maia.errors import MaiaError
from maia.events import INSTANT_MAX, Instant
from maia.sealing.keys.epochs import epoch_from_bytes, epoch_to_bytes
from maia.sealing.keys.type_keys import TypeKeys
from maia.types import Sealing, VerifiedType
from maia.wire.effects import Keep

KEPT_HEAD: Final = "keys/"
"""How the names under which newest epochs are kept begin."""


@dataclass(slots=True)
class NeededType:
    """One type that is needed."""

    type_id: bytes
    sealing: Sealing
    versions: tuple[VerifiedType, ...] = field(repr=False)
    keys: TypeKeys
    asked: int | None = None
    """The number of the question that is under way."""
    joined_as: int | None = None
    """The number of the question with which we were let in, on the present link."""
    due: Instant | None = None
    """When to ask again, or when an answer is overdue."""
    failures: int = 0
    rights_until: Instant = field(default_factory=lambda: Instant(INSTANT_MAX))
    vouched_until: Instant = field(default_factory=lambda: Instant(INSTANT_MAX))
    """The last moment at which the manager takes our certificates to be fresh, where they demand a test."""
    kept: bytes | None = None

    def next_looks(self) -> list[Instant | None]:
        """Return the moments at which there is something to do about this type."""
        moments = [self.due, self.keys.ring.next_forget()]
        if self.rights_until < INSTANT_MAX:
            moments.append(Instant(self.rights_until + 1))
        return moments

    def keep_head(self) -> list[Keep]:
        """Have the newest epoch kept, if it is another than the one that is."""
        head = self.keys.head
        data = None if head is None else epoch_to_bytes(head)
        if data is None or data == self.kept:
            return []
        self.kept = data
        return [Keep(KEPT_HEAD + self.type_id.hex(), data)]

    def status(self) -> dict[str, object]:
        """Return what an operator asks for: no keys."""
        return {
            "epoch": self.keys.ring.newest,
            "groups": len(self.keys.groups),
            "is_asking": self.asked is not None,
        }


class NeededTypes:
    """Every type that is needed, by its id."""

    __slots__ = ("_kept", "_types")

    def __init__(self, kept: Mapping[str, bytes]) -> None:
        """Begin with none; `kept` is what was kept before a restart."""
        self._kept = {name: data for name, data in kept.items() if name.startswith(KEPT_HEAD)}
        self._types: dict[bytes, NeededType] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._types)

    def all(self) -> list[NeededType]:
        """Return every one."""
        return list(self._types.values())

    def get(self, type_id: bytes) -> NeededType | None:
        """Return one, if it is needed."""
        return self._types.get(type_id)

    def of(self, manager: Principal) -> list[NeededType]:
        """Return those that a manager looks after."""
        return [one for one in self._types.values() if one.sealing.manager == manager]

    def asked_under(self, number: int) -> NeededType | None:
        """Return the type that a question is about."""
        return next((one for one in self._types.values() if one.asked == number), None)

    def joined_under(self, number: int) -> NeededType | None:
        """Return the type whose groups a question has let us into."""
        return next((one for one in self._types.values() if one.joined_as == number), None)

    def begin(self, type_id: bytes, sealing: Sealing, versions: tuple[VerifiedType, ...]) -> NeededType:
        """Need a type from now on, with no key but with the newest epoch that was kept."""
        begun = self._types[type_id] = self._begun(type_id, sealing, versions)
        return begun

    def _begun(self, type_id: bytes, sealing: Sealing, versions: tuple[VerifiedType, ...]) -> NeededType:
        kept = self._kept.pop(KEPT_HEAD + type_id.hex(), None)
        try:
            head = None if kept is None else epoch_from_bytes(kept)
            return NeededType(type_id, sealing, versions, TypeKeys(type_id, sealing.manager, head), kept=kept)
        except MaiaError:  # another manager's, or damaged: it proves nothing
            return NeededType(type_id, sealing, versions, TypeKeys(type_id, sealing.manager))

    def drop(self, type_id: bytes) -> NeededType | None:
        """Need a type no more; its keys are destroyed."""
        dropped = self._types.pop(type_id, None)
        if dropped is not None:
            dropped.keys.ring.wipe()
        return dropped

    def wipe(self) -> None:
        """Need nothing any more; all keys are destroyed."""
        for type_id in list(self._types):
            self.drop(type_id)
