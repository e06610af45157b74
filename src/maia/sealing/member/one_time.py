"""Which of a manager's one-time questions does a member have answered?

Those about its own certificates, for keys that it has asked this manager for,
in this session. The runner of the member gets the answers and brings them
(`vouch`); a question belongs to the link that it came on, and what is
answered later answers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from maia.credentials import Principal, SignedCertificate, SignedStatement, statement_to_bytes
from maia.sealing.groups.manager_links import ManagerLink
from maia.sealing.groups.one_time_questions import keys_digest
from maia.wire.effects import LinkId
from maia.wire.messages import Challenge, Vouched
from maia.wire.one_time_questions import Challenged, own_questions

__all__ = ["MemberVouching"]


class MemberVouching:
    """The challenges of managers that are not answered yet."""

    __slots__ = ("_numbers", "_open", "_principal")

    def __init__(self, principal: Principal, numbers: Iterator[int]) -> None:
        """Begin with nothing asked; `numbers` are those of the member's questions."""
        self._principal, self._numbers = principal, numbers
        self._open: dict[int, tuple[Principal, LinkId | None, Challenge]] = {}

    def challenged(
        self,
        manager: ManagerLink,
        message: Challenge,
        *,
        type_id: bytes,
        is_past: bool,
        is_standing: bool,
        own: Iterable[SignedCertificate],
    ) -> Challenged:
        """Return what has to be answered; raise if one of it is not ours to ask for."""
        digest = keys_digest(
            member=self._principal,
            manager=manager.principal,
            type_id=type_id,
            session=manager.secured.public,
            is_past=is_past,
        )
        held = {signed.id: signed for signed in own}
        questions = own_questions(message, digest, held.get)
        self._open = {
            number: one
            for number, one in self._open.items()
            if (one[0], one[2].ref) != (manager.principal, message.ref)
        }
        number = next(self._numbers)
        self._open[number] = (manager.principal, manager.link, message)
        return Challenged(number, message.ref, int(message.seconds), questions, is_standing)

    def manager_of(self, number: int) -> Principal | None:
        """Return who waits for the answers to a challenge."""
        known = self._open.get(number)
        return None if known is None else known[0]

    def answer(self, number: int, answers: Iterable[SignedStatement], manager: ManagerLink) -> Vouched | None:
        """Return the message that brings answers, if they are still awaited."""
        principal, link, message = self._open.pop(number)
        if (principal, link) != (manager.principal, manager.link):
            return None
        return Vouched(message.id, [statement_to_bytes(signed) for signed in answers])

    def forget(self, manager: Principal) -> None:
        """Have nothing answered for a manager any more: the link is gone."""
        self._open = {number: one for number, one in self._open.items() if one[0] != manager}
