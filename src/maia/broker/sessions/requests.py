"""The subscription path: from a client's signed request to an entry that routes events to it.

Read it from top to bottom: who asks, what for, must somebody vouch for that
first, may they, and only then what changes here and elsewhere (`sessions/entries.py`).
An advertisement takes the same way with another last step. What was accepted
ends by request, with its lease, with its right or with its link, and each of
these takes back whatever it had caused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from maia.broker.audiences.local_subscribers import Audiences
from maia.broker.interests.impairment import Impairments
from maia.broker.interests.interests import Interests
from maia.broker.interests.named_rights import NamedRights
from maia.broker.interests.proofs import Proofs
from maia.broker.interests.rekeying import Rekeying
from maia.broker.interests.route_sync import RouteSyncs
from maia.broker.interests.routes import Routes
from maia.broker.keys.keys import KeyRequests
from maia.broker.links.cursors import Cursor
from maia.broker.links.links import Advertisement, Entry, Link, Subscription
from maia.broker.links.pending import Answers, Pending
from maia.broker.log.recording import Recording
from maia.broker.own import Own
from maia.broker.refusals import LedgerRequired
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser, tell_limit
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.publisher_view import shaper_of
from maia.broker.rights.replay_journal import ReplayJournal
from maia.broker.rights.validity import ValidityTracker
from maia.broker.sessions.entries import (
    Entries,
    view_class_of,
)
from maia.broker.settings import BrokerLimits
from maia.broker.streams.disclosures import Disclosures
from maia.broker.streams.durable import DurableSubscriptions
from maia.broker.turn import Turn
from maia.credentials import Action, SignedCertificate, TypeName
from maia.credentials.requirements import NO_REQUIREMENT, requirement_to_bytes
from maia.errors import BadInput, MaiaError, ProtocolViolation, Refusal, Unavailable
from maia.events import Instant, seconds_after
from maia.policy import GrantStale, GrantTestedOnce, Request
from maia.policy.view import is_summarised, written_type
from maia.routing.table.hops import type_of_book_key
from maia.types import VerifiedType, type_id
from maia.types.definition import tree_root
from maia.wire.effects import LinkId
from maia.wire.messages import (
    Accepted,
    Advertise,
    Failed,
    Seen,
    ServedElsewhere,
    Subscribe,
    SubscribePart,
    Withdraw,
)
from maia.wire.requests import (
    BadRequestEncoding,
    EdgeRequest,
    request_from_bytes,
    verify_request,
    without_filter,
)

_Entry = TypeVar("_Entry", Advertisement, Subscription)


@dataclass(slots=True, eq=False, repr=False)
class Requests:
    """What clients ask for."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    replays: ReplayJournal
    routes: Routes
    keys: KeyRequests
    statements: ValidityTracker
    proofs: Proofs
    links: dict[LinkId, Link]
    audiences: Audiences
    recording: Recording | None
    durable: DurableSubscriptions | None
    disclosures: Disclosures | None
    syncs: RouteSyncs
    impairments: Impairments
    named_rights: NamedRights
    rekeying: Rekeying
    interests: Interests
    pending: Pending
    entries: Entries

    def request(self, link: Link, message: Subscribe | Advertise, turn: Turn) -> None:
        """Accept a subscription or an advertisement, or renew the one under the same reference."""
        _check_room(link, message, self.own.settings.limits)
        asked = self._verified_request(link, message, turn)
        if not self.sent_elsewhere(link, message.id, asked.event_type, turn):
            self._decide(link, message, asked, _NOT_ASKED, turn)

    def _decide(
        self, link: Link, message: Subscribe | Advertise, asked: EdgeRequest, answers: Answers, turn: Turn
    ) -> None:
        """Decide a request, unless it has to wait for one-time answers, and register what is permitted."""
        event_type, handed_over = self.types.resolve(asked.event_type, message.definitions, turn.now)
        self.types.check(handed_over)  # nothing is remembered yet
        is_blinded = event_type.sealing is not None and event_type.sealing.blinded
        if is_blinded and asked.requires != NO_REQUIREMENT:
            raise Refusal(
                "REFUSED-REQUIREMENT-BLINDED",
                "frames of a blinded type show no identity: ask without a requirement",
            )
        if isinstance(message, Subscribe):
            self._check_ledger(event_type)
        before = link.subscriptions.get(message.id) or link.advertisements.get(message.id)
        if before is not None and before.right.event_type.type_id != event_type.type_id:
            raise BadInput("INPUT-REF-TAKEN", f"`{before.ref}` stands for another type on this link")
        # For the principal of this link alone.
        request = Request(link.peer, asked.action, event_type.name, event_type, asked.filter)
        pool = self.authoriser.pool(message.credentials, link.shown)
        if answers is _NOT_ASKED and self._waits(link, request, pool, message, asked, turn):
            return
        right = self._decided(link, request, pool, answers, turn.now)
        self.proofs.check_served(request, right.view, turn.now)
        if isinstance(message, Subscribe):
            self._subscribe(link, message, asked, right, handed_over, turn)
        else:
            self._advertise(link, message, asked, right, handed_over, turn)

    def _subscribe(
        self,
        link: Link,
        message: Subscribe,
        asked: EdgeRequest,
        right: Authorisation,
        handed_over: tuple[VerifiedType, ...],
        turn: Turn,
    ) -> None:
        event_type, before = right.event_type, link.subscriptions.get(message.id)
        if is_summarised(right.view):
            self._check_summary(link, message)
        self._meet(event_type, handed_over, turn)
        cursor = self._cursor(link, message, before, event_type, turn)
        frame, own = without_filter(message.request, right.filter)
        entry = Subscription(
            ref=message.id,
            link=link.id,
            basis=right.basis,
            filter=right.filter,
            view_class=view_class_of(right, cursor, asked.requires),
            lease_ends=self.entries.lease_end(link, turn.now),
            frame=frame,
            own=own,
            cursor=cursor,
            requires=asked.requires,
        )
        since = turn.mark()
        self.entries.place_subscription(link, entry, before, turn)
        if self.types.sealing(event_type.type_id) is not None:
            if before is None:
                self.rekeying.note_missing_keys(right, turn)
            self.impairments.dial_or_lack(event_type.type_id, turn)
        if cursor is not None and self.durable is not None:
            if cursor.upto is None:
                self._take_over(cursor, (link.id, entry.ref), turn)
            self.durable.go_on(cursor, (link.id, entry.ref), message.seen, turn)
        self._answer(link, entry, before, since, turn)

    def sent_elsewhere(self, link: Link, number: int, name: TypeName, turn: Turn) -> bool:
        """Send a client to the process that serves a type, if that is another one; say whether so."""
        settings = self.own.settings
        if not settings.processes:
            return False
        address = settings.process_of(type_id(name.owner, name.name))
        if address == settings.address:
            return False
        turn.send(link.id, ServedElsewhere(number, address))
        return True

    def _check_ledger(self, event_type: VerifiedType) -> None:
        """Refuse a subscription whose deliveries would have to be on record, where there is no ledger."""
        required = event_type.definition.ledger or self.types.requires_ledger(event_type.type_id)
        if required and self.disclosures is None:
            raise LedgerRequired(
                f"the owner of `{event_type.name.name}` demands a record of every delivery, and this broker "
                "keeps no ledger: use a broker that does"
            )

    def _check_summary(self, link: Link, message: Subscribe) -> None:
        """Refuse a summary that would have to be kept, and one more than a client may have."""
        if message.name is not None:
            raise Refusal(
                "REFUSED-SUMMARY-DURABLE",
                "a summary is of the time in which you are subscribed: ask without a durable name",
            )
        most = self.own.settings.limits.summaries_per_client
        others = (one for one in link.subscriptions.values() if one.ref != message.id)
        if sum(is_summarised(one.right.view) for one in others) >= most:
            raise Unavailable(
                "UNAVAILABLE-ENTRY-QUOTA",
                f"a client has at most {most} subscriptions to summaries at one time",
            )

    def _advertise(
        self,
        link: Link,
        message: Advertise,
        asked: EdgeRequest,
        right: Authorisation,
        handed_over: tuple[VerifiedType, ...],
        turn: Turn,
    ) -> None:
        event_type, before = right.event_type, link.advertisements.get(message.id)
        written = _version_written(right, handed_over, before)
        self._meet(event_type, handed_over, turn)
        lack: MaiaError | None = self.impairments.dial_or_lack(event_type.type_id, turn)
        if self.types.is_signed(event_type.type_id):
            lack = self.named_rights.lack(event_type, turn.now)
        if before is None and lack is not None:
            # Said and not raised: what was met is remembered, whatever becomes of the request.
            turn.send(link.id, Failed(message.id, lack.code, lack.message))
            turn.refused(lack, link.peer, link=link.id, asked="Advertise")
            return
        entry = Advertisement(
            ref=message.id,
            link=link.id,
            right=right,
            shaper=shaper_of(
                right.view, tree_root(event_type.name.name), self.own.settings.transformation_keys
            ),
            stream=asked.stream,
            lease_ends=self.entries.lease_end(link, turn.now),
            proof=message.request,
            last_sequence=before.last_sequence
            if before is not None and before.stream == asked.stream
            else None,
            requires=requirement_to_bytes(asked.requires),
            written=written,
        )
        if self.recording is not None and before is None:
            self.recording.begin_streams(entry.type_ids, link.peer.key)
        since = turn.mark()
        self.entries.place_advertisement(link, entry, before, turn)
        self._answer(link, entry, before, since, turn)

    def _decide_held(
        self, link: Link, message: Advertise | Subscribe, asked: EdgeRequest, answers: Answers, turn: Turn
    ) -> None:
        """Decide a request that has waited for one-time answers, of which some may be missing."""
        try:
            _check_room(link, message, self.own.settings.limits)
            self._decide(link, message, asked, answers, turn)
        except ProtocolViolation:
            raise
        except MaiaError as problem:
            turn.send(link.id, Failed(message.id, problem.code, problem.message))
            turn.refused(problem, link.peer, link=link.id, asked=type(message).__name__)
            # What stands under this reference was not asked about for the request that failed.
            entry = link.subscriptions.get(message.id) or link.advertisements.get(message.id)
            if entry is not None and self.pending.is_due(link, entry.ref, entry.right, turn.now):
                self.entries.ask_again(link, entry, turn)

    def withdraw(self, link: Link, message: Withdraw, turn: Turn) -> None:
        """End a subscription or an advertisement at its holder's wish."""
        self.pending.one_time.drop(link.id, message.ref)
        entry = link.advertisements.get(message.ref) or link.subscription(message.ref)
        cursor = entry.cursor if message.forget and isinstance(entry, Subscription) else None
        if message.forget and (cursor is None or cursor.upto is not None):
            raise BadInput(
                "INPUT-UNKNOWN-REF", f"nothing durable is subscribed to under `{message.ref}` on this link"
            )
        if cursor is not None:
            self.own.refuse_unkept()
        self.entries.end_entry(link, entry, turn)
        if cursor is not None and self.durable is not None:
            self.durable.forget(cursor, link, turn)
        turn.send(link.id, Accepted(message.id, None))

    # ------------------------------------------------------------ the stages

    def _verified_request(self, link: Link, message: Subscribe | Advertise, turn: Turn) -> EdgeRequest:
        """Return what was signed, by the principal of this link (A14), for this network, not before (A65)."""
        self.own.refuse_unkept()  # it could come again after a restart
        settings = self.own.settings
        signed = request_from_bytes(message.request)
        action = Action.SUBSCRIBE if isinstance(message, Subscribe) else Action.PUBLISH
        if signed.request.action is not action:
            raise BadRequestEncoding(f"a request to `{signed.request.action.value}` came as another message")
        verified = verify_request(
            signed,
            at=turn.now,
            skew_s=settings.skew_s,
            memory=self.replays.memory,
            network=settings.network,
            peer=link.peer,
        )
        # Kept whatever is decided: a request that was refused is not to be heard again either.
        self.replays.write(link.id, signed, seconds_after(turn.now, -settings.skew_s), turn)
        return verified.request

    def _waits(
        self,
        link: Link,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        message: Advertise | Subscribe,
        asked: EdgeRequest,
        turn: Turn,
    ) -> bool:
        """Have a request wait until it is vouched for, if one-time tests stand between it and a permit."""
        self.pending.one_time.drop(link.id, message.id)  # what waited under it is asked for anew
        if not self.authoriser.may_be_vouched_for(request, pool, turn.now):
            return False
        go_on = partial(self._decide_held, link, message, asked)
        return self.pending.ask_first(link, message.id, request, pool, go_on, turn)

    def _decided(
        self,
        link: Link,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        answers: Answers,
        now: Instant,
    ) -> Authorisation:
        """Ask the kernel, with the answers that the request has waited for if it has."""
        try:
            return self.authoriser.decide(request, pool, now, link.circumstances, answers.vouched)
        except (GrantStale, GrantTestedOnce) as problem:
            if answers.missing is not None:
                raise answers.missing from problem
            if not self.statements.awaits(pool, now):
                raise
            # The word that is missing was asked for and may come at any moment: the client asks again.
            sentence = f"{problem.message}; this is asked again for a while"
            raise Unavailable("UNAVAILABLE-STATEMENT-AWAITED", sentence) from problem

    def _meet(self, event_type: VerifiedType, handed_over: tuple[VerifiedType, ...], turn: Turn) -> None:
        """Remember the versions behind a request that was permitted, and look for the keys that they need."""
        is_new = self.types.accept(event_type, handed_over, self._types_in_use, turn)
        for one in (event_type, *event_type.super_types):
            if self.types.sealing(one.type_id) is not None:
                self.rekeying.type_met(one.type_id, is_new, turn)
            if self.recording is not None:
                self.interests.want_to_record(one.type_id, turn)

    def _types_in_use(self) -> set[bytes]:
        """Return the types that have to be known: wanted, offered, opened or read here or behind us."""
        in_use = {*self.audiences, *(type_of_book_key(key) for key in self.routes.book.types())}
        in_use |= {type_id for type_id in self.types.sealed() if self.keys.ring_of(type_id) is not None}
        return in_use if self.durable is None else in_use | self.durable.types()

    def _answer(self, link: Link, entry: Entry, before: Entry | None, since: int, turn: Turn) -> None:
        """Accept a request; a new one when the brokers that were sent something `since` then know it."""
        right = entry.right
        until = right.view.until
        accepted = Accepted(entry.ref, None if until is None else int(until))

        def answer(turn: Turn) -> None:
            turn.send(link.id, accepted)
            if self.durable is not None and isinstance(entry, Subscription) and entry.cursor is not None:
                entry.cursor.is_answered = True
                self.durable.advance(entry.cursor, turn)
            tell_limit(link.id, entry.ref, right, None if before is None else before.right, turn)
            self.impairments.warn(link, entry, turn)

        kind = right.event_type.type_id
        if before is not None:
            answer(turn)
            return
        if self.types.sealing(kind) is not None:
            if self.impairments.key_lack(kind, turn.now) is not None:
                answer(turn)
                return
            self.impairments.await_keys(kind, turn.now)  # from now on, whenever the client is answered
        self.syncs.answer_when_known(entry, since=since, answer=answer, turn=turn)

    # ------------------------------------------------------------ durable

    def _cursor(
        self,
        link: Link,
        message: Subscribe,
        before: Subscription | None,
        event_type: VerifiedType,
        turn: Turn,
    ) -> Cursor | None:
        """Return the cursor of a durable subscription, which a renewal does not change."""
        cursor = None
        if message.name is not None:
            if self.durable is None or not self.durable.serves(event_type.type_id):
                raise BadInput(
                    "INPUT-NOT-RECORDED",
                    "this broker does not record the type, so nothing of it could be delivered later",
                )
            upto = message.upto if isinstance(message, SubscribePart) else None
            if upto:
                # A renewal goes on with its range.
                asked = message.name, message.seen, upto, event_type.type_id
                is_there = before is not None and before.cursor is not None and before.cursor.upto is not None
                return before.cursor if is_there and before else self.durable.range_for(link, *asked)
            cursor = self.durable.cursor_for(link, message.name, message.seen, event_type.type_id, turn)
            cursor.shows = upto is None
        if before is not None and before.cursor is not cursor:
            raise BadInput(
                "INPUT-REF-TAKEN", f"`{before.ref}` stands for something of another name on this link"
            )
        return cursor

    def _take_over(self, cursor: Cursor, holder: tuple[LinkId, int], turn: Turn) -> None:
        """Let the owner of a durable subscription go on with it at one place only."""
        if cursor.holder is not None and cursor.holder != holder:
            number, ref = cursor.holder
            link = self.links[number]
            problem = Refusal(
                "REFUSED-DURABLE-TAKEN-OVER",
                f"`{cursor.name}` was subscribed to again, over another connection of yours",
            )
            self.entries.end_subscription(link, link.subscriptions[ref], turn, problem)

    def receive_seen(self, link: Link, message: Seen, turn: Turn) -> None:
        """Take in what the owner of a durable subscription has had, unless that has ended meanwhile."""
        entry = link.subscriptions.get(message.ref)
        if self.durable is not None and entry is not None and entry.cursor is not None:
            self.durable.acknowledge(entry.cursor, message.position, turn)


def _version_written(
    right: Authorisation, handed_over: tuple[VerifiedType, ...], before: Advertisement | None
) -> VerifiedType | None:
    """Return the version that a publisher writes, where its right converts events; None where it does not.

    It hands the definition over, and so says that it knows of the conversion: frames of a publisher
    that means another type would be read as events of this one.
    """
    name = written_type(right.view)
    if name is None:
        return None
    known = handed_over if before is None or before.written is None else (*handed_over, before.written)
    found = next((one for one in known if one.name == name), None)
    if found is None:
        raise BadInput(
            "TYPE-UNKNOWN",
            f"your right is to write `{name.name}`, version `{name.version}`: hand over its definition",
        )
    return found


_NOT_ASKED: Final = Answers()


def _check_room(link: Link, message: Subscribe | Advertise, limits: BrokerLimits) -> None:
    """Refuse a reference in other use, and one subscription or advertisement more than a client may have."""
    wanted: Mapping[int, Entry] = link.advertisements
    other: Mapping[int, Entry] = link.subscriptions
    most, ref = limits.advertisements_per_client, message.id
    if isinstance(message, Subscribe):
        wanted, other, most = other, wanted, limits.subscriptions_per_client
    if ref in other:
        raise BadInput("INPUT-REF-TAKEN", f"`{ref}` stands for something else on this link")
    if ref not in wanted and len(wanted) >= most:
        raise Unavailable("UNAVAILABLE-ENTRY-QUOTA", f"a client has at most {most} of these at one time")
