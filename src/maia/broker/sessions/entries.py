"""How are subscriptions and advertisements registered, renewed and removed?

An entry is registered when it was permitted, and again when it depends on another
right. Whatever that caused, here and elsewhere, is taken back when it ends. Its lease
and its right set timers, at which it is checked again. Subscriptions that end together
are taken back at one moment: no broker is sent one in the place of another that
ends as well.

A client renews all entries of its link with one message in half a lease, as neighbouring
brokers do among each other. The link has proved who sends it, it concerns
nothing but this link, and nothing that has ended comes back by it, so there is
nothing to sign and nothing to replay (A65). Rights are not decided again for it: each
is rechecked when it ends, renewed or not. What other brokers are shown is a signed request,
and counts there for some minutes (C15): once half of them are over, the renewal is
refused, and the client asks for each entry again, as it does when the two disagree.

Whether an entry still holds, and on which right, is asked when a lease or a right ends,
when a client publishes on a right that may have ended, and when certificates count
no more, count again, or are shown in addition. Its holder receives what became of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from msgspec import structs

from maia.broker.audiences.local_subscribers import Audiences, class_key
from maia.broker.interests.interests import (
    Interests,
    kept_class,
)
from maia.broker.interests.outbox import asks_about_holder
from maia.broker.interests.routes import Routes
from maia.broker.links.cursors import Cursor
from maia.broker.links.links import (
    Advertisement,
    Entry,
    Link,
    Subscription,
    ask_to_recheck,
    end_of_entry,
)
from maia.broker.links.pending import Answers, Pending
from maia.broker.links.projection import Projections, certificates_behind
from maia.broker.own import Own
from maia.broker.refusals import NotVouchedFor
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser, tell_limit
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.publisher_view import shaper_of
from maia.broker.rights.validity import ValidityTracker
from maia.broker.streams.disclosures import DeliveryRecords
from maia.broker.streams.state_query import Retention
from maia.broker.timers import TimerWheel, WithdrawEnded
from maia.broker.turn import Turn
from maia.credentials import SignedCertificate
from maia.errors import MaiaError, Refusal, Unavailable
from maia.events import SECOND, Instant, just_after, seconds_after
from maia.policy import PolicyRefusal
from maia.policy.view import is_summarised, written_type
from maia.predicates import Predicate
from maia.types.definition import tree_root
from maia.wire.message_fields import REFERENCES_MAX
from maia.wire.messages import Accepted, Changed, Ended, Failed, RenewAll
from maia.wire.requests import digest_of_request, digest_of_standing

_MOMENTS_IN_A_LEASE: Final = 64
_WITHDRAWN_AFTER_US: Final = 20_000
"""How long other brokers go on sending what revoked subscriptions wanted, which nobody here is given."""


def view_class_of(right: Authorisation, cursor: Cursor | None, requires: Predicate) -> bytes:
    """Return with whom a subscription shares what it sees."""
    seen = class_key(right.view, right.event_type, requires)
    return seen if cursor is None else kept_class(seen)


@dataclass(slots=True, eq=False, repr=False)
class Entries:
    """The subscriptions and advertisements of all links."""

    own: Own
    authoriser: Authoriser
    types: KnownTypes
    routes: Routes
    statements: ValidityTracker
    audiences: Audiences
    timers: TimerWheel
    projections: Projections
    records: DeliveryRecords
    retention: Retention
    interests: Interests
    pending: Pending

    def place_subscription(
        self, link: Link, entry: Subscription, before: Subscription | None, turn: Turn
    ) -> None:
        """Register a subscription, in place of another one under its reference if there was one."""
        type_id, now = entry.right.event_type.type_id, turn.now
        link.subscriptions[entry.ref], link.standing = entry, None
        self._set_timers(link, entry, now)
        audience = self.audiences.of(type_id)
        if before is not None and before.view_class == entry.view_class:
            if entry.own != before.own and audience.represents(entry.view_class, (link.id, entry.ref)):
                self.interests.send_proof_again(type_id, entry.view_class, turn)
            return
        # In before out: a renewal that changes the filter leaves no moment without either.
        member, is_kept = (link.id, entry.ref), entry.cursor is not None
        if audience.join(
            entry.view_class,
            entry.right.view,
            entry.right.event_type,
            member,
            is_kept=is_kept,
            requires=entry.requires,
            now=now,
            basis=entry.right.basis.view,
        ):
            self.interests.class_joined(type_id, audience.classes[entry.view_class], turn)
        if audience.summarising:
            self.records.schedule_closing(type_id, now)
        if before is None:
            return
        stood = audience.represents(before.view_class, member)
        if audience.leave(before.view_class, member):
            self.interests.class_gone(type_id, before.view_class, turn)
        elif stood:
            self.interests.send_proof_again(type_id, before.view_class, turn)

    def prove_again(self, link: Link, turn: Turn) -> None:
        """Send others the holder's new identity statement, with what it wants by a right that asks for it."""
        asks: dict[int, bool] = {}  # by the identity of the basis, which the entries keep alive
        for entry in link.subscriptions.values():
            basis, type_id = id(entry.basis), entry.right.event_type.type_id
            if basis not in asks:
                asks[basis] = asks_about_holder(entry.right)
            if asks[basis] and self.audiences[type_id].represents(entry.view_class, (link.id, entry.ref)):
                self.interests.send_proof_again(type_id, entry.view_class, turn)

    def place_advertisement(
        self, link: Link, entry: Advertisement, before: Advertisement | None, turn: Turn
    ) -> None:
        """Register an advertisement, in place of another one under its reference if there was one."""
        now, standing = turn.now, link.advertisements.get(entry.ref)
        link.advertisements[entry.ref], link.standing = entry, None
        entry.projections = self.projections.projections_of(entry.right.event_type, entry.stream, now)
        entry.streams.clear()  # what was worked out for its frames was without them
        if entry.right.vouched is not None:
            self.retention.move_retained(entry)
        self._set_timers(link, entry, now)
        if standing is not None:
            self._lose_projections(entry, standing, turn)
        self.interests.advertised(entry, turn)

    def project_again(self, link: Link, entry: Advertisement, turn: Turn) -> None:
        """Publish an advertisement as those super-types alone to which there is consent now."""
        self.place_advertisement(link, replace(entry), None, turn)

    def _lose_projections(self, entry: Advertisement, before: Advertisement, turn: Turn) -> None:
        """Take back what an advertisement is no longer published as, and what was said so."""
        staying = {(one.type_id, one.stream) for one in entry.projections}
        for one in before.projections:
            if (one.type_id, one.stream) in staying:
                continue
            self.retention.forget_stream(one.type_id, entry.right.principal.key, one.stream, turn)
            if one.type_id not in entry.type_ids:
                self.interests.unadvertised_as(one.type_id, before, turn)
                turn.note("not-published-as-super-type", type=one.type_id.hex(), ref=entry.ref)

    def end_entry(self, link: Link, entry: Entry, turn: Turn, problem: MaiaError | None = None) -> None:
        """Remove the entry under a reference, whichever it is."""
        if isinstance(entry, Subscription):
            self.end_subscription(link, entry, turn, problem)
        else:
            self.end_advertisement(link, entry, turn, problem)

    def end_advertisement(
        self, link: Link, entry: Advertisement, turn: Turn, problem: MaiaError | None = None
    ) -> None:
        """Take an advertisement back, here and elsewhere; tell its holder if it did not ask for that."""
        del link.advertisements[entry.ref]
        link.standing = None
        link.warned.pop(entry.ref, None)
        self.pending.one_time.drop(link.id, entry.ref)
        _tell_ended(link, [entry.ref], problem, turn)
        # Removed first: a broker that receives that the type is not published here any more forgets the way.
        if isinstance(problem, PolicyRefusal | NotVouchedFor):
            self.retention.publisher_lost_its_right(entry, turn)
        self.interests.unadvertised(entry, turn)

    def lease_end(self, link: Link, now: Instant) -> Instant:
        """Return when a lease that begins now ends.

        It is rounded down a little, so that what a client asks for within a second
        ends at the same moment and is rechecked together.
        """
        lease_us = self.own.settings.lease_s * SECOND
        ends = seconds_after(now, self.own.settings.lease_s)
        ends = Instant(ends - ends % max(1, lease_us // _MOMENTS_IN_A_LEASE))
        if link.lease_ends != ends:
            link.lease_ends = ends
        return link.lease_ends

    def schedule_recheck_of(self, link: Link, entry: Entry) -> None:
        """Set the timer for the end of an entry's lease or right, whichever comes first."""
        right_ends = entry.right.stable.not_after
        at = entry.lease_ends if right_ends is None else min(entry.lease_ends, just_after(right_ends))
        ask_to_recheck(self.timers, link, at)

    def _set_timers(self, link: Link, entry: Entry, now: Instant) -> None:
        """Note what an entry depends on, and set its timers."""
        self.statements.dependencies.note(link.id, entry.right.watched)
        self.schedule_recheck_of(link, entry)
        if isinstance(entry, Advertisement) and entry.right.event_type.super_type is not None:
            self.statements.dependencies.note(link.id, certificates_behind(entry.right.event_type))
            for consent in entry.projections[-1].consents if entry.projections else ():
                if consent.stable.not_after is not None:
                    ask_to_recheck(self.timers, link, just_after(consent.stable.not_after))
        vouched = entry.right.vouched
        if vouched is not None and now < vouched.ask_at:
            ask_to_recheck(self.timers, link, vouched.ask_at)

    def end_subscription(
        self, link: Link, entry: Subscription, turn: Turn, problem: MaiaError | None = None
    ) -> None:
        """Take a subscription back, here and elsewhere; tell its holder if it did not ask for that."""
        _tell_ended(link, [entry.ref], problem, turn)
        self.end_subscriptions(link, (entry,), turn)

    def end_subscriptions(self, link: Link, entries: Iterable[Subscription], turn: Turn) -> None:
        """Take subscriptions of one link back, here and elsewhere; their holder asked, or is gone."""
        self._take_out(link, entries, turn)
        self.interests.withdraw_ended(turn)

    def end_revoked_subscriptions(
        self, link: Link, entries: Sequence[Subscription], turn: Turn, problem: MaiaError
    ) -> None:
        """End subscriptions of one link for one reason, and notify their holder.

        Other brokers are sent that in a moment, with all else that falls by then: until the last
        holder knows, here and at neighbours, nothing else is done. What arrives meanwhile is for nobody.
        """
        self._take_out(link, entries, turn)
        if self.routes.ended and WithdrawEnded() not in self.timers:
            self.timers.add(WithdrawEnded(), Instant(turn.now + _WITHDRAWN_AFTER_US))
        _tell_ended(link, [entry.ref for entry in entries], problem, turn)

    def _take_out(self, link: Link, entries: Iterable[Subscription], turn: Turn) -> None:
        """Take subscriptions out of their classes: nothing is delivered to them from here on."""
        link.standing, ended = None, self.routes.ended
        for entry in entries:
            asked_type, view_class, member = (
                entry.basis.terms.asked_type,
                entry.view_class,
                (link.id, entry.ref),
            )
            assert asked_type is not None  # noqa: S101 - a subscription names its type
            del link.subscriptions[entry.ref]
            link.warned.pop(entry.ref, None)
            self.pending.one_time.drop(link.id, entry.ref)
            if entry.cursor is not None:
                let_go(entry.cursor, turn)
            type_id = asked_type.type_id
            audience = self.audiences[type_id]
            stood = audience.represents(view_class, member)
            if audience.leave(view_class, member):
                ended[type_id, view_class] = True
                if not audience.classes:
                    del self.audiences[type_id]
            elif stood:
                ended[type_id, view_class] = False

    def renew_all(self, link: Link, message: RenewAll, turn: Turn) -> None:
        """Begin every lease on a link anew, if client and broker agree on what is registered there."""
        entries = link.entries
        if link.standing is None:
            link.standing = digest_of_standing((one.ref, digest_of_request(one.proof)) for one in entries)
        if len(entries) != message.entries or link.standing != message.digest:
            raise Unavailable(
                "UNAVAILABLE-ENTRIES-DIFFER",
                "other entries are registered on this link: ask for each of them again",
            )
        oldest = min((one.signed_at for one in entries), default=turn.now)
        settings = self.own.settings
        if settings.is_to_be_signed_again(oldest, turn.now):
            # Said and not raised: this is the way of things, and no refusal that an operator has to know of.
            why = f"a signed request counts at other brokers for {settings.request_age_s} seconds: sign again"
            turn.send(link.id, Failed(message.id, "UNAVAILABLE-REQUESTS-OLD", why))
            return
        # A definition may have ended meanwhile, and then entries of its type are not renewed.
        for name in {entry.right.event_type.name for entry in entries}:
            self.types.resolve(name, (), turn.now)
        ends = self.lease_end(link, turn.now)
        for entry in entries:
            entry.lease_ends = ends
        # A right may end within the lease that begins now; then it is rechecked before the lease ends (A35).
        for right_ends in {entry.right.stable.not_after for entry in entries}:
            at = ends if right_ends is None else min(ends, just_after(right_ends))
            ask_to_recheck(self.timers, link, at)
        turn.send(link.id, Accepted(message.id, None))

    def recheck_entry(self, link: Link, entry: Entry, turn: Turn) -> None:
        """Check whether an entry still holds: its lease, then its right, which may be another by now."""
        now = turn.now
        if entry.lease_ends <= now < self.timers.forgives_until:
            entry.lease_ends = self.timers.forgives_until
        if entry.lease_ends <= now:
            self.end_entry(
                link,
                entry,
                turn,
                Unavailable("UNAVAILABLE-LEASE-ENDED", "it was not renewed within its lease"),
            )
            return
        try:
            held = entry.right
            right = self.authoriser.still(held, now)
        except PolicyRefusal as problem:
            self._end_refused(link, entry, self.why_lost(entry, held.pool, problem, now), turn)
            return
        if right is not held:
            if (unfit := _unfit(entry, right)) is not None:
                self._end_refused(link, entry, unfit, turn)
                return
            self._place_again(link, entry, right, turn)
            if entry.right.vouched is not None:
                self.ask_again(link, entry, turn)
            return
        if self.pending.is_due(link, entry.ref, entry.right, now):
            self.ask_again(link, entry, turn)
        self.schedule_recheck_of(link, entry)
        if (
            isinstance(entry, Advertisement)
            and entry.projections
            and not self.projections.consents_hold(entry, now)
        ):
            self.project_again(link, entry, turn)

    def decide_again(self, link: Link, entry: Entry, pool: tuple[SignedCertificate, ...], turn: Turn) -> None:
        """Decide an entry from other evidence than before: it keeps what is left, or ends at once.

        Its holder receives what became of it. What needs a one-time answer to hold, or to hold on more, is
        asked about anew.
        """
        try:
            right = self.authoriser.left_of(entry.right, pool, turn.now, link.circumstances)
        except PolicyRefusal as problem:
            self._end_refused(link, entry, self.why_lost(entry, pool, problem, turn.now), turn)
            return
        self.register_again(link, entry, right, turn)

    def register_again(self, link: Link, entry: Entry, right: Authorisation, turn: Turn) -> None:
        """Register an entry with what is left of its right, and ask for one-time answers if it needs them."""
        if (unfit := _unfit(entry, right)) is not None:
            self._end_refused(link, entry, unfit, turn)
            return
        self._register_with(link, entry, right, turn)
        if self.authoriser.may_ask(right, right.pool):
            self.ask_again(link, entry, turn)

    def _with_answers(
        self,
        link: Link,
        ref: int,
        pool: tuple[SignedCertificate, ...],
        answers: Answers,
        turn: Turn,
    ) -> None:
        """Decide an entry with one-time answers that were asked for to do so.

        If some are missing, it keeps what is permitted without them, or ends with an answer.
        """
        entry = link.subscriptions.get(ref) or link.advertisements[ref]
        before = entry.right
        try:
            right = self.authoriser.decide(
                before.request, pool, turn.now, before.terms.around, answers.vouched
            )
        except PolicyRefusal as problem:
            self._end_refused(link, entry, answers.missing or problem, turn)
            return
        if (unfit := _unfit(entry, right)) is not None:
            self._end_refused(link, entry, unfit, turn)
            return
        self._register_with(link, entry, right, turn)

    def why_lost(
        self,
        entry: Entry,
        pool: tuple[SignedCertificate, ...],
        problem: PolicyRefusal,
        now: Instant,
    ) -> PolicyRefusal | Unavailable:
        """Return why an entry ends: if it could hold by one-time answers, its holder may ask again."""
        right, edge = entry.right, self.authoriser
        if not edge.may_ask(right, pool) or not edge.demanded(right.request, pool, now, right.terms.around):
            return problem
        return Unavailable("UNAVAILABLE-NOT-VOUCHED-FOR", "it has to be vouched for anew: ask for it again")

    def _end_refused(self, link: Link, entry: Entry, problem: MaiaError, turn: Turn) -> None:
        self.end_entry(link, entry, turn, problem)
        turn.note("refused", **end_of_entry(entry, problem.code, str(link.peer)))
        turn.count("maia_refused_total", code=problem.code)

    def ask_again(self, link: Link, entry: Entry, turn: Turn) -> None:
        """Have the entry that is registered under a reference by now vouched for anew."""
        standing = link.subscriptions.get(entry.ref) or link.advertisements[entry.ref]
        go_on = partial(self._with_answers, link, entry.ref, standing.right.pool)
        self.pending.ask_again(link, entry.ref, standing.right, go_on, turn)

    def _register_with(self, link: Link, entry: Entry, right: Authorisation, turn: Turn) -> None:
        """Register an entry with another right, and notify its holder if that shows something else."""
        self._place_again(link, entry, right, turn)
        if right.view != entry.right.view:
            until = right.view.until
            why = "it rests on other certificates than before, and may show something else"
            turn.send(
                link.id,
                Changed(entry.ref, None if until is None else int(until), "REFUSED-RIGHT-CHANGED", why),
            )
            turn.count("maia_rights_changed_total")
        elif not isinstance(entry, Advertisement) and right.used != entry.right.used:
            # Others are sent by which certificates the same is wanted now, if this entry represents it.
            type_id, member = right.event_type.type_id, (link.id, entry.ref)
            if self.audiences[type_id].represents(entry.view_class, member):
                self.interests.send_proof_again(type_id, entry.view_class, turn)
        tell_limit(link.id, entry.ref, right, entry.right, turn)

    def _place_again(self, link: Link, entry: Entry, right: Authorisation, turn: Turn) -> None:
        """Register an entry with another right than before: what remains of several, for instance."""
        if isinstance(entry, Advertisement):
            tree, secrets = tree_root(right.event_type.name.name), self.own.settings.transformation_keys
            renewed = replace(entry, right=right, shaper=shaper_of(right.view, tree, secrets))
            self.place_advertisement(link, renewed, None, turn)
            return
        seen = view_class_of(right, entry.cursor, entry.requires)
        renewed_entry = structs.replace(entry, basis=right.basis, filter=right.filter, view_class=seen)
        self.place_subscription(link, renewed_entry, entry, turn)

    def recheck_entries(self, link: Link, turn: Turn) -> None:
        """Look at entries of a link whose lease or right has ended by now, or that are to be vouched for."""
        now = turn.now
        for entry in link.entries:
            right_ends = entry.right.stable.not_after
            has_ended = entry.lease_ends <= now or (right_ends is not None and right_ends < now)
            is_projected = isinstance(entry, Advertisement) and bool(entry.projections)
            if has_ended or is_projected or self.pending.is_due(link, entry.ref, entry.right, now):
                self.recheck_entry(link, entry, turn)


def let_go(cursor: Cursor, turn: Turn) -> None:
    """Keep how far a durable subscription has come, also past what was nothing for its owner."""
    cursor.detach()
    if cursor.upto is None and cursor.seen > cursor.kept_seen:
        turn.keep(cursor.kept())


def _tell_ended(link: Link, refs: list[int], problem: MaiaError | None, turn: Turn) -> None:
    """Tell the holder of references why they ended, all for one reason, unless it asked for that."""
    if problem is None or not refs:
        return
    for at in range(0, len(refs), REFERENCES_MAX):
        turn.send(link.id, Ended(refs[at : at + REFERENCES_MAX], problem.code, problem.message))
    turn.count("maia_ended_total", len(refs), code=problem.code)


_ENTRIES_FOR_A_REQUEST: Final = 64
"""Renewing so many entries costs about as much as one request; the client's quota pays for them so."""


def price_of_renewal(link: Link) -> int:
    """Return how many requests it counts for that a client renews all entries of a link."""
    return 1 + (len(link.subscriptions) + len(link.advertisements)) // _ENTRIES_FOR_A_REQUEST


def _unfit(entry: Entry, right: Authorisation) -> MaiaError | None:
    """Say why an entry cannot go on with what is left of its right, although there is something left."""
    if isinstance(entry, Advertisement):
        if written_type(right.view) == written_type(entry.right.view):
            return None
        return Refusal(
            "REFUSED-RIGHT-CHANGED",
            "what is left of your right is to write events of another type: advertise again",
        )
    if entry.cursor is None or not is_summarised(right.view):
        return None
    return Refusal(
        "REFUSED-SUMMARY-DURABLE", "what is left of your right shows summaries, of which nothing is kept"
    )
