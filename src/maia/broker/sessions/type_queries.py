"""Which versions of a type are there, as far as this broker and its neighbours know?

What is known here is answered at once, unless all versions are asked for. Else the question goes on:
from the broker of the client that asks to all of its neighbours, and from those towards the type's
publishers, whose brokers know the versions in use. All answers together go back the same way. Nothing of
them is verified or remembered here: definitions prove themselves, and the asking client verifies them
(MAIA 4.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Final

from maia.broker.interests.router import Router
from maia.broker.interests.routes import Routes, book_keys
from maia.broker.keys.blinded import BlindedIds
from maia.broker.links.links import Link, Role
from maia.broker.own import Own
from maia.broker.rights.known_types import KnownTypes
from maia.broker.timers import TimerWheel, TypesOverdue
from maia.broker.turn import Turn
from maia.credentials import TypeName
from maia.credentials.names import type_id
from maia.errors import MaiaError
from maia.events import Instant, seconds_after
from maia.sessions.admission import RequestQuota, TooManyRequests
from maia.types import VerifiedType, definition_from_bytes, definition_to_bytes
from maia.wire.codec import encode
from maia.wire.effects import LinkId
from maia.wire.messages import Failed, TypeQuery, TypeReply, VersionsQuery
from maia.wire.names import type_from_bytes

REPLY_MAX: Final = 256
REPLY_BYTES: Final = 1 << 20
"""How many definitions are told at a time, and how many bytes they have, unless the first has more."""
_BYTES_FOR_A_REQUEST: Final = 16 << 10
_ANSWERED_WITHIN_S: Final = 2.0
_QUESTIONS_MAX: Final = 1024
_NUMBER_BYTES: Final = 7


@dataclass(slots=True)
class _Question:
    """A question that not all neighbours have answered yet."""

    asker: Link
    id: int
    name: TypeName
    waits_for: set[LinkId]
    until: Instant
    told: list[Iterable[bytes]] = field(repr=False)
    """What is known here, and what each neighbour said, each the newest first."""


@dataclass(slots=True, eq=False, repr=False)
class TypeQueries:
    """Questions about types, and what is answered."""

    own: Own
    types: KnownTypes
    routes: Routes
    router: Router
    blinded: BlindedIds
    quota: RequestQuota
    timers: TimerWheel
    questions: dict[int, _Question] = field(default_factory=dict, init=False)
    """By the number under which neighbours were asked; it is the same at every broker on the way."""

    def receive(self, link: Link, message: TypeQuery, turn: Turn) -> None:
        """Answer a question with what is known here, or ask neighbours first."""
        name, is_client = type_from_bytes(message.name), link.role is Role.CLIENT
        known = self._known(name, is_every=isinstance(message, VersionsQuery))
        asked = () if known and not isinstance(message, VersionsQuery) else self._asked(name, link)
        number = int.from_bytes(self.own.random(_NUMBER_BYTES)) if is_client else message.id
        waits_for, told = set(asked) - {link.id}, (definition_to_bytes(one.signed) for one in known)
        question = _Question(
            link, message.id, name, waits_for, seconds_after(turn.now, _ANSWERED_WITHIN_S), [told]
        )
        if not waits_for or number in self.questions or len(self.questions) >= _QUESTIONS_MAX:
            self._answer(question, turn)
            return
        try:
            self.quota.spend(link.peer, turn.now, requests=len(waits_for))
        except TooManyRequests:
            self._answer(question, turn)
            return
        self.questions[number] = question
        self.timers.add(TypesOverdue(), question.until)
        asking = encode(type(message)(number, message.name))
        for one in sorted(waits_for):
            turn.send_bytes(one, asking)

    def _asked(self, name: TypeName, link: Link) -> Iterable[LinkId]:
        """Return the neighbours to ask. Who asks them for a blinded type would name it to them."""
        which = type_id(name.owner, name.name)
        if self.blinded.is_blinded(which):
            return ()
        towards = self.router.towards_publishers(book_keys(which))
        return chain(towards, self.routes.node_of) if link.role is Role.CLIENT else towards

    def _known(self, name: TypeName, *, is_every: bool) -> list[VerifiedType]:
        """Return versions, the newest first: one and those before it; or the same of all that are newest."""
        versions = self.types.versions(type_id(name.owner, name.name)) if is_every else ()
        older = {one.definition.previous for one in versions}
        newest = [one.name for one in versions if one.name.version not in older] if is_every else [name]
        return list(dict.fromkeys(one for tip in newest for one in reversed(self.types.named(tip))))

    def receive_reply(self, link: Link, message: TypeReply, turn: Turn) -> None:
        """Take what a neighbour knows, as far as it is about the type that it was asked for."""
        question = self.questions.get(message.id)
        if question is None or link.id not in question.waits_for:
            return
        question.told.append([one for one in reversed(message.definitions) if _is_about(question.name, one)])
        self._one_less(message.id, link.id, turn)

    def end_overdue(self, turn: Turn) -> None:
        """Answer with what has come by now where a neighbour is late."""
        for number in [one for one, question in self.questions.items() if question.until <= turn.now]:
            self._answer(self.questions.pop(number), turn)

    def link_gone(self, link: LinkId, turn: Turn) -> None:
        """Expect no answer from a link that is gone, and answer nothing to it."""
        for number, question in list(self.questions.items()):
            if question.asker.id == link:
                del self.questions[number]
            elif link in question.waits_for:
                self._one_less(number, link, turn)

    def _one_less(self, number: int, link: LinkId, turn: Turn) -> None:
        question = self.questions[number]
        question.waits_for.discard(link)
        if not question.waits_for:
            self._answer(self.questions.pop(number), turn)

    def _answer(self, question: _Question, turn: Turn) -> None:
        """Hand out as many definitions as fit, the newest of each neighbour before the others of any.

        Who wants more asks for the ones before. A short question has a long answer, so the asker's quota pays
        for it by its length.
        """
        told, size, link = dict[bytes, None](), 0, question.asker
        for data in (one for some in zip_longest(*question.told) for one in some if one is not None):
            size += 0 if data in told else len(data)
            if told and (size > REPLY_BYTES or len(told) == REPLY_MAX):
                break
            told[data] = None
        try:
            price = 1 + sum(map(len, told)) // _BYTES_FOR_A_REQUEST
            self.quota.spend(link.peer, turn.now, requests=price)
        except TooManyRequests as problem:
            is_client = link.role is Role.CLIENT
            turn.send(
                link.id,
                Failed(question.id, problem.code, problem.message)
                if is_client
                else TypeReply(question.id, []),
            )
            turn.refused(problem, link.peer, link=link.id, asked="TypeQuery")
            return
        turn.send(link.id, TypeReply(question.id, list(told)[::-1]))


def _is_about(name: TypeName, data: bytes) -> bool:
    try:
        found = definition_from_bytes(data).definition.name
    except MaiaError:
        return False
    return (found.owner, found.name) == (name.owner, name.name)
