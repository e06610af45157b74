"""The subscription path: from a client's signed request to an entry that routes events to it.

Read it from top to bottom: who asks, what for, must somebody vouch for that
first, may they, and only then what changes here and elsewhere (`subscriptions/registry.py`).
An advertisement takes the same way with another last step. What was accepted
ends by request, with its lease, with its right or with its link, and each of
these takes back whatever it had caused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from maia.broker.access.authorisation import Authorisation
from maia.broker.access.authoriser import tell_limit
from maia.broker.access.challenges import challenge_request
from maia.broker.durable.cursors import Cursor
from maia.broker.publication.publisher_view import shaper_of
from maia.broker.refusals import (
    CursorTaken,
    LedgerRequired,
    NotRecorded,
    RefTaken,
    RequirementOnBlinded,
    StatementAwaited,
    SummaryNotKept,
    TooManyEntries,
    UnknownRef,
    UnknownType,
)
from maia.broker.routing.interests import want_to_record
from maia.broker.sealed.rekeying import note_missing_keys, type_met
from maia.broker.sessions.links import Advertisement, Entry, HeldRequest, Link, Subscription
from maia.broker.state import BrokerState, seconds_after
from maia.broker.subscriptions.registry import (
    end_entry,
    end_subscription,
    lease_end,
    place_advertisement,
    place_subscription,
    view_class_of,
)
from maia.broker.turn import Turn
from maia.credentials import Action, SignedCertificate, TypeName
from maia.credentials.requirements import NO_REQUIREMENT, requirement_to_bytes
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import GrantStale, GrantTestedOnce, Request
from maia.policy.view import is_summarised, written_type
from maia.routing.table.hops import type_of_book_key
from maia.types import VerifiedType, type_id
from maia.types.definition import tree_root
from maia.validity import VouchedFor
from maia.wire.effects import LinkId
from maia.wire.messages import (
    Accepted,
    Advertise,
    Failed,
    Seen,
    ServedElsewhere,
    Subscribe,
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


def subscribe(state: BrokerState, link: Link, message: Subscribe, turn: Turn) -> None:
    """Accept a subscription, or renew the one that stands under the same reference."""
    link.check_room_to_subscribe(message.id, state.settings.limits)
    asked = _verified_request(state, link, message, Action.SUBSCRIBE, turn)
    if not sent_elsewhere(state, link, message.id, asked.event_type, turn):
        _subscribe(state, link, message, asked, _NOT_ASKED, turn)


def _subscribe(
    state: BrokerState,
    link: Link,
    message: Subscribe,
    asked: EdgeRequest,
    answers: _Answers,
    turn: Turn,
) -> None:
    event_type, handed_over = _event_type(state, asked, message, turn.now)
    _check_ledger(state, event_type)
    before = _renewed(link.subscriptions.get(message.id), event_type)
    request, pool = _question(state, link, asked, event_type, message)
    held = HeldRequest(message, asked)
    if answers is _NOT_ASKED and _waits(state, link, request, pool, held, turn):
        return
    right = _decided(state, link, request, pool, answers, turn.now)
    if is_summarised(right.view):
        _check_summary(state, link, message)
    _meet(state, event_type, handed_over, turn)
    cursor = _cursor(state, link, message, before, event_type, turn)
    frame, own = without_filter(message.request, right.filter)
    entry = Subscription(
        ref=message.id,
        link=link.id,
        basis=right.basis,
        filter=right.filter,
        view_class=view_class_of(right, cursor, asked.requires),
        lease_ends=lease_end(state, link, turn.now),
        frame=frame,
        own=own,
        cursor=cursor,
        requires=asked.requires,
    )
    since = turn.mark()
    place_subscription(state, link, entry, before, turn)
    if state.types.sealing(event_type.type_id) is not None:
        if before is None:
            note_missing_keys(state, right, turn)
        state.impairments.dial_or_lack(event_type.type_id, turn)
    _answer(state, link, entry, before, since, turn)
    if cursor is not None and state.durable is not None:
        _take_over(state, cursor, (link.id, entry.ref), turn)
        state.durable.go_on(cursor, (link.id, entry.ref), message.seen, turn)


def sent_elsewhere(state: BrokerState, link: Link, number: int, name: TypeName, turn: Turn) -> bool:
    """Send a client to the process that serves a type, if that is another one; say whether so."""
    settings = state.settings
    if not settings.processes:
        return False
    address = settings.process_of(type_id(name.owner, name.name))
    if address == settings.address:
        return False
    turn.send(link.id, ServedElsewhere(number, address))
    return True


def _check_ledger(state: BrokerState, event_type: VerifiedType) -> None:
    """Refuse a subscription whose deliveries would have to be on record, where there is no ledger."""
    required = event_type.definition.ledger or state.types.requires_ledger(event_type.type_id)
    if required and state.disclosures is None:
        raise LedgerRequired(
            f"the owner of `{event_type.name.name}` demands a record of every delivery, and this broker "
            "keeps no ledger: use a broker that does"
        )


def _check_summary(state: BrokerState, link: Link, message: Subscribe) -> None:
    """Refuse a summary that would have to be kept, and one more than a client may have."""
    if message.name is not None:
        raise SummaryNotKept(
            "a summary is of the time in which you are subscribed: ask without a durable name"
        )
    most = state.settings.limits.summaries_per_client
    others = (one for one in link.subscriptions.values() if one.ref != message.id)
    if sum(is_summarised(one.right.view) for one in others) >= most:
        raise TooManyEntries(f"a client has at most {most} subscriptions to summaries at one time")


def advertise(state: BrokerState, link: Link, message: Advertise, turn: Turn) -> None:
    """Accept an advertisement, or renew the one that stands under the same reference."""
    link.check_room_to_advertise(message.id, state.settings.limits)
    asked = _verified_request(state, link, message, Action.PUBLISH, turn)
    if not sent_elsewhere(state, link, message.id, asked.event_type, turn):
        _advertise(state, link, message, asked, _NOT_ASKED, turn)


def _advertise(
    state: BrokerState, link: Link, message: Advertise, asked: EdgeRequest, answers: _Answers, turn: Turn
) -> None:
    event_type, handed_over = _event_type(state, asked, message, turn.now)
    before = _renewed(link.advertisements.get(message.id), event_type)
    request, pool = _question(state, link, asked, event_type, message)
    held = HeldRequest(message, asked)
    if answers is _NOT_ASKED and _waits(state, link, request, pool, held, turn):
        return
    right = _decided(state, link, request, pool, answers, turn.now)
    written = _version_written(right, handed_over, before)
    _meet(state, event_type, handed_over, turn)
    lack = state.impairments.dial_or_lack(event_type.type_id, turn)
    if before is None and lack is not None:
        # Said and not raised: what was met is remembered, whatever becomes of the request.
        turn.send(link.id, Failed(message.id, lack.code, lack.message))
        turn.refused(lack, link.peer, link=link.id, asked="Advertise")
        return
    entry = Advertisement(
        ref=message.id,
        link=link.id,
        right=right,
        shaper=shaper_of(right.view, tree_root(event_type.name.name), state.settings.transformation_keys),
        stream=asked.stream,
        lease_ends=lease_end(state, link, turn.now),
        proof=message.request,
        last_sequence=before.last_sequence if before is not None and before.stream == asked.stream else None,
        requires=requirement_to_bytes(asked.requires),
        written=written,
    )
    since = turn.mark()
    place_advertisement(state, link, entry, before, turn)
    _answer(state, link, entry, before, since, turn)


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
        raise UnknownType(
            f"your right is to write `{name.name}`, version `{name.version}`: hand over its definition"
        )
    return found


def decide_held(
    state: BrokerState,
    link: Link,
    message: Advertise | Subscribe,
    asked: EdgeRequest,
    vouched: VouchedFor | None,
    missing: MaiaError | None,
    turn: Turn,
) -> None:
    """Decide a request that has waited for one-time answers; `missing` says that some did not come."""
    answers = _Answers(vouched, missing)
    if isinstance(message, Advertise):
        link.check_room_to_advertise(message.id, state.settings.limits)
        _advertise(state, link, message, asked, answers, turn)
    else:
        link.check_room_to_subscribe(message.id, state.settings.limits)
        _subscribe(state, link, message, asked, answers, turn)


def withdraw(state: BrokerState, link: Link, message: Withdraw, turn: Turn) -> None:
    """End a subscription or an advertisement at its holder's wish."""
    state.one_time.drop(link.id, message.ref)
    entry = link.advertisements.get(message.ref) or link.subscription(message.ref)
    cursor = entry.cursor if message.forget and isinstance(entry, Subscription) else None
    if message.forget and cursor is None:
        raise UnknownRef(f"nothing durable is subscribed to under `{message.ref}` on this link")
    end_entry(state, link, entry, turn)
    if cursor is not None and state.durable is not None:
        state.durable.forget(cursor, turn)
    turn.send(link.id, Accepted(message.id, None))


# ------------------------------------------------------------ the stages


def _verified_request(
    state: BrokerState,
    link: Link,
    message: Subscribe | Advertise,
    action: Action,
    turn: Turn,
) -> EdgeRequest:
    """Return what was signed, by the principal of this link (A14), for this network, not before (A65)."""
    settings = state.settings
    signed = request_from_bytes(message.request)
    if signed.request.action is not action:
        raise BadRequestEncoding(f"a request to `{signed.request.action.value}` came as another message")
    verified = verify_request(
        signed,
        at=turn.now,
        skew_s=settings.skew_s,
        memory=state.requests.memory,
        network=settings.network,
        peer=link.peer,
    )
    # Kept whatever is decided: a request that was refused is not to be heard again either.
    state.requests.write(link.peer, signed, seconds_after(turn.now, -settings.skew_s), turn)
    return verified.request


def _event_type(
    state: BrokerState, asked: EdgeRequest, message: Subscribe | Advertise, now: Instant
) -> tuple[VerifiedType, tuple[VerifiedType, ...]]:
    """Return the type version that the request names, and the ones handed over; nothing is remembered yet."""
    event_type, handed_over = state.types.resolve(asked.event_type, message.definitions, now)
    state.types.check(handed_over)
    is_blinded = event_type.sealing is not None and event_type.sealing.blinded
    if is_blinded and asked.requires != NO_REQUIREMENT:
        raise RequirementOnBlinded("frames of a blinded type show no identity: ask without a requirement")
    return event_type, handed_over


@dataclass(frozen=True, slots=True)
class _Answers:
    """Who has vouched for certificates, for this request, and what to say if that was not everybody."""

    vouched: VouchedFor | None = None
    missing: MaiaError | None = None


_NOT_ASKED: Final = _Answers()


def _question(
    state: BrokerState,
    link: Link,
    asked: EdgeRequest,
    event_type: VerifiedType,
    message: Subscribe | Advertise,
) -> tuple[Request, tuple[SignedCertificate, ...]]:
    """Return what the kernel is asked, for the principal of this link alone, and what it has shown."""
    request = Request(link.peer, asked.action, event_type.name, event_type, asked.filter)
    return request, state.authoriser.pool(message.credentials, link.shown)


def _waits(
    state: BrokerState,
    link: Link,
    request: Request,
    pool: tuple[SignedCertificate, ...],
    held: HeldRequest,
    turn: Turn,
) -> bool:
    """Have a request wait until it is vouched for, if one-time tests stand between it and a permit."""
    state.one_time.drop(link.id, held.message.id)  # what waited under this reference is asked for anew
    if not state.authoriser.may_be_vouched_for(request, pool, turn.now):
        return False
    return challenge_request(state, link, request, pool, held, turn)


def _decided(
    state: BrokerState,
    link: Link,
    request: Request,
    pool: tuple[SignedCertificate, ...],
    answers: _Answers,
    now: Instant,
) -> Authorisation:
    """Ask the kernel, with the answers that the request has waited for if it has."""
    try:
        return state.authoriser.decide(request, pool, now, link.remote, answers.vouched)
    except (GrantStale, GrantTestedOnce) as problem:
        if answers.missing is not None:
            raise answers.missing from problem
        if not state.statements.awaits(pool, now):
            raise
        # The word that is missing was asked for and may come at any moment: the client asks again.
        raise StatementAwaited(problem.message) from problem


def _meet(
    state: BrokerState, event_type: VerifiedType, handed_over: tuple[VerifiedType, ...], turn: Turn
) -> None:
    """Remember the versions behind a request that was permitted, and look for the keys that they need."""
    is_new = state.types.accept(event_type, handed_over, lambda: _types_in_use(state), turn)
    for one in (event_type, *event_type.super_types):
        if state.types.sealing(one.type_id) is not None:
            type_met(state, one.type_id, is_new, turn)
        if state.recording is not None:
            want_to_record(state, one.type_id, turn)


def _types_in_use(state: BrokerState) -> set[bytes]:
    """Return the types that have to be known: they are wanted, offered, opened or read here or behind us."""
    in_use = {*state.audiences, *(type_of_book_key(key) for key in state.routes.book.types())}
    in_use |= {type_id for type_id in state.types.sealed() if state.keys.ring_of(type_id) is not None}
    return in_use if state.durable is None else in_use | state.durable.types()


def _answer(
    state: BrokerState, link: Link, entry: Entry, before: Entry | None, since: int, turn: Turn
) -> None:
    """Accept a request; if it is new, when the brokers that were sent something `since` then know of it."""
    right = entry.right
    until = right.view.until
    accepted = Accepted(entry.ref, None if until is None else int(until))

    def answer(turn: Turn) -> None:
        turn.send(link.id, accepted)
        tell_limit(link.id, entry.ref, right, None if before is None else before.right, turn)
        state.impairments.warn(link, entry, turn)

    kind = right.event_type.type_id
    if before is not None:
        answer(turn)
        return
    if state.types.sealing(kind) is not None:
        if state.impairments.key_lack(kind, turn.now) is not None:
            answer(turn)
            return
        state.impairments.await_keys(kind, turn.now)  # from now on, whenever the client is answered
    state.syncs.answer_when_known(entry, since=since, answer=answer, turn=turn)


# ------------------------------------------------------------ durable


def _cursor(
    state: BrokerState,
    link: Link,
    message: Subscribe,
    before: Subscription | None,
    event_type: VerifiedType,
    turn: Turn,
) -> Cursor | None:
    """Return the cursor of a durable subscription, which a renewal does not change."""
    cursor = None
    if message.name is not None:
        if state.durable is None or not state.durable.records(event_type.type_id):
            raise NotRecorded(
                "this broker does not record the type, so nothing of it could be delivered later"
            )
        cursor = state.durable.cursor_for(link, message.name, message.seen, event_type.type_id, turn)
    if before is not None and before.cursor is not cursor:
        raise RefTaken(f"`{before.ref}` stands for something of another name on this link")
    return cursor


def _take_over(state: BrokerState, cursor: Cursor, holder: tuple[LinkId, int], turn: Turn) -> None:
    """Let the owner of a durable subscription go on with it at one place only."""
    if cursor.holder is not None and cursor.holder != holder:
        number, ref = cursor.holder
        link = state.links[number]
        problem = CursorTaken(f"`{cursor.name}` was subscribed to again, over another connection of yours")
        end_subscription(state, link, link.subscriptions[ref], turn, problem)


def receive_seen(state: BrokerState, link: Link, message: Seen, turn: Turn) -> None:
    """Take in what the owner of a durable subscription has had, unless that has ended meanwhile."""
    entry = link.subscriptions.get(message.ref)
    if state.durable is not None and entry is not None and entry.cursor is not None:
        state.durable.acknowledge(entry.cursor, message.position, turn)


def _renewed(before: _Entry | None, event_type: VerifiedType) -> _Entry | None:
    """Return the entry that a request renews, which is about the same type."""
    if before is not None and before.right.event_type.type_id != event_type.type_id:
        raise RefTaken(f"`{before.ref}` stands for another type on this link")
    return before
