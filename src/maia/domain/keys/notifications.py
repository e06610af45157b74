"""What is sent to members when their groups change?

A new epoch is one message, the same bytes for all members. What only one member
may know is sealed to each of its sessions. A member that is shut out learns it before
the epoch that is not for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from maia.credentials import Principal
from maia.domain.keys.links import Links, MemberLink
from maia.sealing.groups.manager import GroupManager
from maia.sealing.groups.outcomes import Delivery, NewEpoch, Outcome, ShutOut
from maia.sealing.groups.welcome import pack, parcel_info
from maia.sealing.keys.delivery import seal_to
from maia.sealing.keys.epochs import epoch_to_bytes
from maia.wire.codec import Unsendable, encode
from maia.wire.effects import Count, Effect, Note, Send
from maia.wire.messages import GroupKeys, GroupsEnded, KeysHeld, Rekey, RekeyPart

__all__ = ["Teller"]


class Teller:
    """Turns what has come of a change into messages on links."""

    __slots__ = ("_links", "_principal", "_random")

    def __init__(self, principal: Principal, links: Links, random: Callable[[int], bytes]) -> None:
        """Speak as the manager `principal`."""
        self._principal, self._links, self._random = principal, links, random

    def tell(
        self, manager: GroupManager, outcomes: list[Outcome], asked: tuple[MemberLink, int] | None
    ) -> list[Effect]:
        """Return what is said; `asked` is the question that a delivery answers, and where it came from."""
        delivered = {one.member for one in outcomes if isinstance(one, Delivery)}
        effects: list[Effect] = []
        for outcome in outcomes:
            match outcome:
                case NewEpoch():
                    effects += self._tell_epoch(manager, outcome, skip=delivered)
                case Delivery():
                    effects += self._deliver(manager, outcome, asked)
                case ShutOut():
                    effects += self._tell_shut_out(manager, outcome)
                case _:
                    assert_never(outcome)
        return effects

    def _tell_epoch(self, manager: GroupManager, new: NewEpoch, *, skip: set[Principal]) -> list[Effect]:
        parts = [RekeyPart(group.uid, change) for group, change in new.parts]
        data = self._rekey(manager.type_id, new, parts)
        links = [link for link in self._links.joined(manager.type_id) if link.peer not in skip]
        number = new.epoch.statement.number
        fields = {"type": manager.type_id.hex(), "epoch": number, "groups": len(parts), "told": len(links)}
        why = {reason.value: count for reason, count in new.why.items()}
        return [
            Note("epoch", {**fields, **why}),
            Count("maia_key_epochs_total"),
            *(Count("maia_key_refreshes_total", count, {"why": word}) for word, count in why.items()),
            *(Send(link.id, data) for link in links),
        ]

    def _rekey(self, type_id: bytes, new: NewEpoch, parts: list[RekeyPart]) -> bytes:
        try:
            return encode(Rekey(type_id, epoch_to_bytes(new.epoch), parts))
        except Unsendable:
            # More changed at once than fits into a message: the members learn that they have to ask.
            return encode(KeysHeld(type_id, new.epoch.statement.number, new.epoch.digest))

    def _deliver(
        self, manager: GroupManager, delivery: Delivery, asked: tuple[MemberLink, int] | None
    ) -> list[Effect]:
        info = parcel_info(manager.type_id, manager=self._principal, member=delivery.member)
        packed = pack(delivery.parcel)
        told = manager.terms.as_record()
        epochs = [epoch_to_bytes(one) for one in delivery.epochs]
        until = None if delivery.until is None else int(delivery.until)
        effects: list[Effect] = []
        for link in self._links.of(delivery.member):
            key = link.joined.get(manager.type_id)
            if key is None:
                continue
            number = asked[1] if asked is not None and asked[0] is link else 0
            sealed = seal_to(key, packed, info, self._random)
            message = GroupKeys(number, manager.type_id, told, epochs, sealed, until)
            effects.append(Send(link.id, encode(message)))
        return effects

    def _tell_shut_out(self, manager: GroupManager, shut: ShutOut) -> list[Effect]:
        code = "REFUSED-EVICTED" if shut.is_evicted else "REFUSED-RIGHT-ENDED"
        sentence = "you were put out of these groups" if shut.is_evicted else "your right to these has ended"
        uids = [group.uid for group in sorted(shut.groups, key=lambda one: one.order)]
        data = encode(GroupsEnded(manager.type_id, list(uids), code, sentence))
        effects: list[Effect] = [
            Note("shut-out", {"peer": str(shut.member), "groups": len(uids), "code": code}),
            Count("maia_key_shut_out_total", labels={"code": code}),
        ]
        for link in self._links.of(shut.member):
            if manager.type_id in link.joined:
                effects.append(Send(link.id, data))
                if shut.is_out:
                    del link.joined[manager.type_id]
        return effects
