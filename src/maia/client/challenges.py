"""Which of a broker's one-time questions does a client have answered, and for which of its entries?

Those about certificates of its own, for a request of its own
(`maia.wire.one_time_questions`). A question belongs to the link that it came
on; what is answered later answers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maia.client.entries import EntryStage, RequestEntry
from maia.client.wallet import Wallet
from maia.credentials import Principal, SignedStatement, statement_to_bytes
from maia.errors import MaiaError
from maia.policy import Request, request_digest
from maia.wire.codec import encode
from maia.wire.messages import Challenge, Vouched
from maia.wire.one_time_questions import Challenged, own_questions

__all__ = ["CONNECTING", "NOT_VOUCHED_FOR", "Challenges"]

CONNECTING: Final = 0
"""The reference by which a broker asks about the right to connect."""

NOT_VOUCHED_FOR: Final = "REFUSED-NOT-VOUCHED-FOR"
"""What a broker says when the answers that it was brought did not do."""


class Challenges:
    """The challenges of the present link that are not answered yet: of each entry the latest."""

    __slots__ = ("_open", "_principal", "_problems", "_wallet")

    def __init__(self, principal: Principal, wallet: Wallet) -> None:
        """Begin with nothing asked."""
        self._principal, self._wallet = principal, wallet
        self._open: dict[int, Challenge] = {}
        self._problems: dict[int, MaiaError] = {}

    def ask(self, number: int, entry: RequestEntry, message: Challenge) -> Challenged:
        """Return what the application has to have answered; raise if one of it is not ours to ask for."""
        version = entry.known.event_type
        asked = Request(self._principal, entry.action, version.name, version, entry.filter)
        is_standing = entry.stage is EntryStage.ACCEPTED or entry.was_accepted
        return self.ask_for(number, asked, message, is_standing=is_standing)

    def ask_for(self, number: int, asked: Request, message: Challenge, *, is_standing: bool) -> Challenged:
        """Return what the application has to have answered about a request of its own."""
        self.forget(message.ref)
        questions = own_questions(message, request_digest(asked), self._wallet.find)
        self._open[number] = message
        return Challenged(number, message.ref, int(message.seconds), questions, is_standing)

    def answer(
        self, number: int, answers: Iterable[SignedStatement], problem: MaiaError | None
    ) -> list[bytes]:
        """Return the message that brings answers, if anybody waits for them still."""
        message = self._open.pop(number, None)
        if message is None:
            return []
        if problem is not None:
            self._problems[message.ref] = problem
        return [encode(Vouched(message.id, [statement_to_bytes(signed) for signed in answers]))]

    def waits(self, ref: int) -> bool:
        """Say whether a broker waits for answers before it decides about an entry."""
        return any(message.ref == ref for message in self._open.values())

    def reason(self, ref: int, problem: MaiaError) -> MaiaError:
        """Return why nobody vouched, which the client knows better than the broker that says so."""
        known = self._problems.pop(ref, None)
        return problem if known is None or problem.code != NOT_VOUCHED_FOR else known

    def forget(self, ref: int) -> None:
        """Have nothing answered for an entry any more."""
        self._problems.pop(ref, None)
        self._open = {number: message for number, message in self._open.items() if message.ref != ref}

    def clear(self) -> None:
        """Forget everything: the link is gone."""
        self._open.clear()
        self._problems.clear()
