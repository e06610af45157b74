"""May this principal connect, publish or subscribe here, and does what it was granted still hold?

Everything at the edge is decided by the policy kernel, for the principal that
proved its key on the link and for no other. A right is checked again
at each frame: usually that compares two moments, and when the period of the
answer has passed, the kernel decides anew. Certificates that are revoked, or that
demand a validity statement which is not at hand, count for nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from msgspec import structs

from maia.bounded_map import BoundedMap
from maia.broker.refusals import NotABroker
from maia.broker.rights.authorisation import (
    NOTHING_KNOWN,
    RATE_FACTS,
    Authorisation,
    ChainCache,
    ChainSearch,
    Circumstances,
    Rates,
    SearchKey,
    Terms,
    TermsKey,
    certificates_of,
    memory_of,
)
from maia.broker.rights.validity import ValidityTracker
from maia.broker.settings import BrokerSettings
from maia.broker.turn import Turn
from maia.credentials import (
    Action,
    Budget,
    Owner,
    Principal,
    ResourceName,
    SignedCertificate,
    Validity,
    VerificationCache,
    VerifiedConstitution,
    certificate_from_bytes,
    find_chains,
    steady_period,
)
from maia.credentials.brokers import as_broker, made_by
from maia.credentials.chains.discovery import read_from_owner
from maia.credentials.chains.reduction import BYTES_PER_STEP
from maia.credentials.identity import VerifiedIdentity, identity_values
from maia.errors import BrokenCredential
from maia.events import (
    PUBLISHER_PREFIX,
    SECOND,
    SUBSCRIBER_PREFIX,
    AttributeUid,
    Instant,
    Value,
    seconds_after,
)
from maia.policy import (
    NO_FACTS,
    Evidence,
    Facts,
    Permit,
    PolicyRefusal,
    Request,
    TooMuchToSearch,
    View,
    decide,
    gather_evidence,
    publisher_views,
)
from maia.policy.claims import World
from maia.policy.facts import SUBSCRIBER, about_the_world
from maia.predicates import attributes_of
from maia.validity import ASSUMED_GOOD, NO_ANSWERS, Once, Tester, VouchedFor, one_time_tests, questions_for
from maia.wire.effects import LinkId
from maia.wire.messages import Changed

_POOLS_MAX: Final = 2048
_POOL_BYTES_MAX: Final = 16 << 20
"""How much memory the pools may take that have led somewhere, and again those that evidence was found in:
enough for clients that ask now. An authorisation has its own certificates, and is decided again from them."""
_AT_HAND_MAX: Final = 1024
_AT_HAND_BYTES_MAX: Final = 1 << 20
"""Certificates of such pools that are read once for all pools which they are in: a right to connect, say."""
_REFUSED_MAX: Final = 256
_REFUSED_BYTES_MAX: Final = 8 << 20
"""How much may be remembered of what led nowhere: enough that it costs less when it is asked again."""
_TERMS_MAX: Final = 1024
_ASKS_NOTHING: Final[frozenset[AttributeUid]] = frozenset()
_MET_AGAIN_US: Final = 1_000_000
_DOUBTED_MAX: Final = 256
"""Certificates of one pool that do not count now, and are waited for: as many as a decision may depend on."""
_OF_NO_CHAIN: Final = frozenset(
    (
        "POLICY-NO-CHAIN",
        "POLICY-EXPIRED",
        "POLICY-NOT-YET-VALID",
        "POLICY-REVOKED",
        "POLICY-STALE",
        "POLICY-ONE-TIME",
    )
)
"""Why there is no chain. Where none is needed, a filter or a type may be refused, and others be granted."""


class Authoriser:
    """The kernel's decisions for one broker, and the certificates it has seen."""

    __slots__ = (
        "_at_hand",
        "_certificates",
        "_found",
        "_own",
        "_pools",
        "_rates",
        "_read_last",
        "_refused",
        "_settings",
        "_statements",
        "_terms",
        "decisions",
        "epoch",
        "meter",
    )

    def __init__(
        self, settings: BrokerSettings, certificates: VerificationCache, statements: ValidityTracker
    ) -> None:
        """Decide with the settings' bounds and constitutions, and by what statements say."""
        self._settings = settings
        self._certificates = certificates
        self._statements = statements
        self._rates = Rates()
        self._pools: BoundedMap[tuple[bytes, ...], tuple[SignedCertificate, ...]] = BoundedMap(
            _POOLS_MAX, bytes_max=_POOL_BYTES_MAX, size_of=lambda _, pool: memory_of(pool)
        )
        self._read_last: tuple[tuple[bytes, ...], tuple[SignedCertificate, ...]] = ((), ())
        self._at_hand: BoundedMap[bytes, SignedCertificate] = BoundedMap(
            _AT_HAND_MAX, bytes_max=_AT_HAND_BYTES_MAX, size_of=lambda data, _: len(data)
        )
        self._found = ChainCache(entries_max=_POOLS_MAX, bytes_max=_POOL_BYTES_MAX)
        self._refused = ChainCache(entries_max=_REFUSED_MAX, bytes_max=_REFUSED_BYTES_MAX)
        self._terms: BoundedMap[TermsKey, Terms] = BoundedMap(_TERMS_MAX)
        self._own: tuple[tuple[SignedCertificate, ...], Authorisation] | None = None
        self.epoch = 0
        """Grows when all evidence may have changed; a right of another epoch is decided anew."""
        self.decisions = 0
        """How often the kernel was asked."""
        self.meter = Budget(0)
        """Counts, in `used`, all work on certificates; who caused it is seen by looking before and after."""

    def pool(self, *shown: Iterable[bytes]) -> tuple[SignedCertificate, ...]:
        """Read certificates that were shown; those that have led somewhere cost no reading and no memory."""
        given = tuple(data for some in shown for data in some)
        known = self._pools.use(given)
        if known is not None:
            return known
        # Beside those, the last ones alone are at hand: any peer can show what leads nowhere (A89).
        if self._read_last[0] != given:
            once = dict.fromkeys(given)
            self.meter.used += sum(map(len, once)) // BYTES_PER_STEP
            known_or_read = (self._at_hand.use(data) or certificate_from_bytes(data) for data in once)
            self._read_last = given, tuple(known_or_read)
        return self._read_last[1]

    def remember(self, pool: tuple[SignedCertificate, ...]) -> None:
        """Keep certificates that were read just now, because they have led somewhere."""
        given, last = self._read_last
        if last is not pool or given in self._pools:
            return
        self._pools.put(given, pool)
        for data, signed in zip(dict.fromkeys(given), pool, strict=True):
            self._at_hand.put(data, signed)

    def pool_of_stranger(
        self, shown: Iterable[bytes], budget: Budget, owner: Owner | None = None
    ) -> tuple[SignedCertificate, ...]:
        """Read those certificates that the signatures of an owner lead to, and no others; the network's owner
        unless another one is named.
        """
        read = read_from_owner(
            shown,
            root=self._settings.network.owner if owner is None else owner,
            cache=self._certificates,
            budget=budget,
            constitutions=self._settings.constitutions,
        )
        return tuple(read.values())

    def budget_before_welcome(self) -> Budget:
        """Return what one greeting or hello may cost."""
        return Budget.of(self._settings.limits.work_before_welcome, self.meter)

    def budget_of_answer(self) -> Budget:
        """Return what one decision for a client may cost."""
        return Budget.of(self._settings.limits.work_per_request, self.meter)

    def budget_of_message(self) -> Budget:
        """Return what one message of another broker may cost."""
        return Budget.of(self._settings.limits.work_per_message, self.meter)

    def decide(
        self,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        around: Circumstances = NOTHING_KNOWN,
        vouched: VouchedFor | None = None,
        budget: Budget | None = None,
    ) -> Authorisation:
        """Return the right that the certificates in `pool` give, or raise the kernel's refusal.

        `around` is what is known of the requester's link. `vouched` are the
        one-time answers that were given for this very request; what depends on
        them holds no longer than they may serve. `budget` is what the search
        for chains may cost, if that is not what an answer may cost.
        """
        found = self._evidence(request, pool, now, NO_ANSWERS if vouched is None else vouched.once, budget)
        if found.refusal is not None:
            raise found.refusal.with_traceback(None)
        right = found.further(request, now, self.epoch, around) if vouched is None else None
        if right is not None:
            return right
        self.decisions += 1
        decision = decide(request, found.evidence, self._facts(request, found, now, around), now)
        if not isinstance(decision, Permit):
            refusal = decision.as_refusal()
            # Without a chain that is the answer whatever is asked for, and explaining it costs most.
            is_general = not found.evidence.chains and decision.code in _OF_NO_CHAIN
            found.refusal = refusal if is_general else None
            raise refusal
        until = self._statements.monitor.facts_until(request.principal, now) if found.asks else None
        asked_again = [one.every_s for one in self._settings.functions if one.name in found.asks]
        if asked_again:
            again = Instant(now + int(min(asked_again) * SECOND))
            until = again if until is None else min(until, again)
        if until is not None:  # it is decided again when the facts about its holder hold no more
            decision = replace(decision, stable=decision.stable.intersection(Validity(None, until)))
        answered = set() if vouched is None else {certificate for certificate, _ in vouched.once}
        if vouched is None or not any(signed.id in answered for signed in found.used):
            return found.authorise(request, decision, self.epoch, around, None, self._terms)
        decision = replace(decision, stable=decision.stable.intersection(vouched.serves))
        return found.authorise(request, decision, self.epoch, around, vouched, self._terms)

    def demanded(
        self,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        around: Circumstances = NOTHING_KNOWN,
        *,
        beyond: View | None = None,
    ) -> frozenset[Once]:
        """Return who has to vouch for what so that a request is permitted, or shows more than `beyond`.

        Nobody, if that would not do: what leads to no permit is not asked about (A30). Of many chains,
        so many are asked about as one request may.
        """
        every = self._evidence(request, pool, now).once
        if not every:
            return NO_ANSWERS
        chains = self._evidence(request, pool, now, every).evidence.chains
        wanted = questions_for(chains, self._settings.limits.one_time_questions_per_request)
        found = self._evidence(request, pool, now, wanted)
        decision = decide(request, found.evidence, self._facts(request, found, now, around), now)
        is_of_use = isinstance(decision, Permit) and decision.view != beyond
        return wanted if is_of_use else NO_ANSWERS

    def may_be_vouched_for(self, request: Request, pool: tuple[SignedCertificate, ...], now: Instant) -> bool:
        """Return whether a one-time test keeps a certificate from counting for a request."""
        return bool(self._evidence(request, pool, now).once)

    def may_ask(self, right: Authorisation, pool: tuple[SignedCertificate, ...]) -> bool:
        """Return whether one-time tests may keep more from counting; quickly, for most rights no."""
        asked = (right.principal, right.terms.action, right.terms.resource, id(pool), NO_ANSWERS)
        known = self._found_before(asked)
        return right.vouched is not None or known is None or bool(known.once)

    def _facts(self, request: Request, found: ChainSearch, now: Instant, around: Circumstances) -> Facts:
        """Return what conditions ask for; a publisher that is quiet is within every rate."""
        if not found.asks:
            return NO_FACTS
        return self._known(request, now, around, dict.fromkeys(RATE_FACTS, 0))

    def world_at_a_border(
        self, holder: Principal, now: Instant, identity: VerifiedIdentity | None = None
    ) -> World:
        """Return what this broker knows by itself of the world of somebody behind a border.

        Where it believes identity providers, what is asked of the holder counts as one of them has said it.
        """
        skew_s = self._settings.skew_s
        moments = now, seconds_after(now, -skew_s), seconds_after(now, skew_s)
        said = {} if identity is None else identity_values(identity.statement)
        around = {AttributeUid(SUBSCRIBER_PREFIX + uid): value for uid, value in said.items()}
        facts = Facts(around, asserted=self._asserted(holder, now, around))
        return World(facts, moments, is_holder_known=self._settings.identity is not None)

    def _asserted(
        self, holder: Principal, now: Instant, around: Circumstances
    ) -> dict[Principal, dict[AttributeUid, Value]]:
        """Return what issuers say of a holder, and what functions do that are registered for them here."""
        said = self._statements.monitor.facts_about(holder, now)
        asserted: dict[Principal, dict[AttributeUid, Value]] = {by: dict(facts) for by, facts in said.items()}
        for one in self._settings.functions:  # what its issuer has stated counts before what a table says
            given = str(holder) if one.of == SUBSCRIBER else around.get(one.of)
            found = None if given is None else one.find(given)
            if found is not None:
                asserted.setdefault(one.issuer, {}).setdefault(one.name, found)
        return asserted

    def _known(self, request: Request, now: Instant, around: Circumstances, rates: Circumstances) -> Facts:
        asserted = self._asserted(request.principal, now, around)
        if request.action is Action.PUBLISH:  # the link that asks is its publisher's
            around = {
                AttributeUid(uid.replace(SUBSCRIBER_PREFIX, PUBLISHER_PREFIX, 1)): value
                for uid, value in around.items()
            }
        return Facts({**around, **rates}, asserted=asserted)

    def spend_rate(self, right: Authorisation, events: int, now: Instant) -> bool:
        """Return whether a publisher's conditions hold with so many events more, and count them if so."""
        request, type_id = right.request, right.event_type.type_id
        found = self._evidence(request, right.evidence[0], now, right.evidence[1])
        rates = self._rates.facts(right.principal, type_id, now, more=events)
        facts = self._known(request, now, right.terms.around, rates)
        if not isinstance(decide(request, found.evidence, facts, now), Permit):
            return False
        self._rates.count(right.principal, type_id, now, events)
        return True

    def decide_then(
        self, request: Request, pool: tuple[SignedCertificate, ...], then: Instant
    ) -> Authorisation:
        """Return the right that certificates gave at an earlier moment.

        A right that ended later does not take back what was said under it, and
        what was recorded had been decided upon: no tester has to vouch for it again.
        """
        found = self._found_in(request, pool, then, ASSUMED_GOOD, NO_ANSWERS)
        self.decisions += 1
        decision = decide(request, found.evidence, NO_FACTS, then)
        if not isinstance(decision, Permit):
            raise decision.as_refusal()
        return found.authorise(request, decision, self.epoch, NOTHING_KNOWN, None, self._terms)

    def publisher_views(
        self, request: Request, pool: tuple[SignedCertificate, ...], at: Instant, *, is_past: bool
    ) -> tuple[View, ...]:
        """Return every View under which a publisher may publish, or could at an earlier moment."""
        if is_past:
            found = self._found_in(request, pool, at, ASSUMED_GOOD, NO_ANSWERS)
            return publisher_views(request, found.evidence, NO_FACTS, at)
        found = self._evidence(request, pool, at)
        return publisher_views(request, found.evidence, self._facts(request, found, at, NOTHING_KNOWN), at)

    def _evidence(
        self,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        once: frozenset[Once] = NO_ANSWERS,
        budget: Budget | None = None,
    ) -> ChainSearch:
        """Return the chains for a request; they are looked for once until a certificate begins or ends."""
        # The pool is kept beside the answer, so its identity is not given to another one meanwhile.
        asked = (request.principal, request.action, request.resource, id(pool), once)
        known = self._found_before(asked)
        if known is not None and known.steady.contains(now):
            (self._found if known.evidence.chains else self._refused).use(asked)
            if known.is_doubted and now - known.met_at > _MET_AGAIN_US:
                # The statement that is missing is still needed.
                known.met_at = now
                self._statements.met(pool, known.watched)
            return known
        found = self._found_in(request, pool, now, self._statements.monitor, once, budget)
        self._found.drop(asked)
        self._refused.drop(asked)
        if found.evidence.chains:
            self.remember(pool)
            self._found.add(asked, found)
        else:
            self._refused.add(asked, found)
        return found

    def _found_before(self, asked: SearchKey) -> ChainSearch | None:
        return self._found.get(asked) or self._refused.get(asked)

    def _found_in(
        self,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        at: Instant,
        tester: Tester,
        once: frozenset[Once],
        budget: Budget | None = None,
    ) -> ChainSearch:
        budget = self.budget_of_answer() if budget is None else budget
        evidence = self._gathered(request, pool, at, tester, once, budget)
        for problem in evidence.broken:
            forget_frames(problem)
        used = certificates_of(evidence)
        missed = evidence.missed[:_DOUBTED_MAX]
        if evidence.chains and tester is not ASSUMED_GOOD:
            missed = self._missed(request, pool, at, once, budget)
        watched = tuple(dict.fromkeys([one.id for one in (*used, *missed)]))
        self._statements.met(pool, watched)
        steady = steady_period((signed.certificate.validity for signed in pool), at)
        # A list that was stated ahead may give back what is refused now.
        steady = steady.intersection(Validity(None, self._statements.monitor.steady_until(missed, at)))
        conditions = (about_the_world(chain.authority) for chain in evidence.chains)
        asks = frozenset(uid for condition in conditions for uid in attributes_of(condition)) or _ASKS_NOTHING
        asked = frozenset([one for signed in missed for one in one_time_tests(signed)]) or NO_ANSWERS
        return ChainSearch(pool, evidence, steady, used, watched, asks, at, bool(missed), asked)

    def _missed(
        self,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        at: Instant,
        once: frozenset[Once],
        budget: Budget,
    ) -> tuple[SignedCertificate, ...]:
        """Return the certificates that would speak for a request too if they counted, and no others.

        Anybody can show certificates that lead nowhere, by issuers and with testers of its own making.
        """
        check = self._statements.monitor.check
        doubted = {signed.id for signed in pool if check(signed, at, once=once) is not None}
        if not doubted:
            return ()
        try:
            would = certificates_of(self._gathered(request, pool, at, ASSUMED_GOOD, once, budget, doubted))
        except TooMuchToSearch:
            return ()
        return tuple([one for one in would if one.id in doubted][:_DOUBTED_MAX])

    def _gathered(
        self,
        request: Request,
        pool: tuple[SignedCertificate, ...],
        at: Instant,
        tester: Tester,
        once: frozenset[Once],
        budget: Budget,
        doubtful: Iterable[bytes] = (),
    ) -> Evidence:
        return gather_evidence(
            request,
            pool,
            at=at,
            bounds=self._settings.bounds,
            cache=self._certificates,
            constitutions=self._settings.constitutions,
            standing=tester,
            once=once,
            chains_max=self._settings.limits.chains_per_request,
            doubtful=doubtful,
            budget=budget,
        )

    def expect(
        self,
        principal: Principal,
        action: Action,
        resource: ResourceName,
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        budget: Budget | None = None,
    ) -> None:
        """Subscribe to the issuers of statements that the certificates of a possible chain demand."""
        with suppress(BrokenCredential):
            chains = find_chains(
                pool,
                root=resource.owner,
                subject=principal,
                action=action,
                resource=resource,
                at=now,
                cache=self._certificates,
                constitutions=self._settings.constitutions,
                budget=self.budget_of_answer() if budget is None else budget,
            )
            spoken = frozenset(signed.id for chain in chains for signed in chain.certificates)
            self._statements.met(pool, spoken)

    def decide_connect(
        self,
        principal: Principal,
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        around: Circumstances = NOTHING_KNOWN,
        vouched: VouchedFor | None = None,
        budget: Budget | None = None,
    ) -> Authorisation:
        """Return the principal's right to be part of this network."""
        request = Request(principal, Action.CONNECT, self._settings.network)
        return self.decide(request, pool, now, around, vouched, budget)

    def decide_broker(
        self,
        broker: Principal,
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        inside: Collection[Principal],
        around: Circumstances = NOTHING_KNOWN,
        budget: Budget | None = None,
    ) -> tuple[Authorisation, bool]:
        """Return the right of a key to be part of this network as a broker, and whether it is one of ours.

        It is by the word of those in `inside` alone: the right of one of ours rests on nothing else, so
        that it never holds on by the word of another organisation (C18).
        """
        anybody = as_broker(pool, broker)
        makers = made_by(broker, anybody)
        if not makers:
            self.decide_connect(broker, pool, now, around, budget=budget)  # it may not be here at all
            raise NotABroker
        if not makers.isdisjoint(inside):
            ours = as_broker(pool, broker, inside.__contains__)
            try:
                return self.decide_connect(broker, ours, now, around, budget=budget), True
            except PolicyRefusal:
                if makers.issubset(inside):
                    raise
        return self.decide_connect(broker, anybody, now, around, budget=budget), False

    def makers(
        self, broker: Principal, held: tuple[SignedCertificate, ...], now: Instant
    ) -> frozenset[Principal]:
        """Return the organisations whose broker this one is, by its own certificates; none if it is nobody's.

        Whether a statement on them is at hand says nothing about whose broker it is.
        """
        known = self._own
        if known is None or known[0] is not held or not known[1].stable.contains(now):
            request = Request(broker, Action.CONNECT, self._settings.network)
            try:
                known = held, self.decide_then(request, as_broker(held, broker), now)
            except PolicyRefusal:
                return frozenset()
            self._own = known
        return made_by(broker, known[1].used)

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...]) -> None:
        """Ask these constitutions from now on who speaks for a quorum."""
        self._settings = replace(self._settings, constitutions=constitutions)
        self._own = None

    def evidence_changed(self) -> None:
        """Begin a new epoch: every right is decided anew when it is next asked about."""
        self.epoch += 1
        self._found.clear()
        self._refused.clear()

    def forget(self, certificates: Collection[bytes]) -> None:
        """Look for chains anew where they were found with one of these certificates, or without it."""
        self._found.forget(certificates)
        self._refused.forget(certificates)

    def holds(self, right: Authorisation, now: Instant) -> bool:
        """Return whether a right was decided for this moment and from today's evidence."""
        basis = right.basis
        return basis.terms.epoch == self.epoch and basis.stable.contains(now)

    def still(self, right: Authorisation, now: Instant) -> Authorisation:
        """Return the right as it is now: the same, another one, or the kernel's refusal."""
        return right if self.holds(right, now) else self.left_of(right, right.pool, now)

    def decide_again(self, right: Authorisation, now: Instant) -> Authorisation:
        """Return what a right has become; a refusal of whatever its holder asks for costs no decision."""
        refusal = self.refusal_of_all(right, now)
        if refusal is not None:
            raise refusal.with_traceback(None)
        return self.left_of(right, right.pool, now)

    def refusal_of_all(self, right: Authorisation, now: Instant) -> PolicyRefusal | None:
        """Return why every right on the same basis is refused, if that is known without a decision."""
        asked = (right.principal, right.terms.action, right.terms.resource, id(right.pool), NO_ANSWERS)
        found = self._found_before(asked)
        is_known = found is not None and right.vouched is None and found.steady.contains(now)
        return found.refusal if found is not None and is_known else None

    def left_of(
        self,
        right: Authorisation,
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        around: Circumstances | None = None,
    ) -> Authorisation:
        """Return what certificates make of a right now, or raise the kernel's refusal.

        `around` is what is known of its holder's link now, where that has changed.

        One-time answers were given for one authorisation. What is left of it may depend on them while they
        serve; whatever would be more has to be vouched for anew.
        """
        around = right.terms.around if around is None else around
        if right.vouched is not None and right.vouched.serves.contains(now):
            with suppress(PolicyRefusal):
                left = self.decide(right.request, right.used, now, around, right.vouched)
                return Authorisation(structs.replace(left.basis, pool=pool), left.filter)
        return self.decide(right.request, pool, now, around)


def forget_frames(problem: BaseException | None) -> None:
    """Cut an error off from the calls it came through, which hold what was said: it may be remembered."""
    while problem is not None:
        problem.__traceback__ = None
        problem = problem.__cause__ or problem.__context__


def tell_limit(
    link: LinkId, ref: int, right: Authorisation, before: Authorisation | None, turn: Turn
) -> None:
    """Tell the holder of a right, once, that a limit has cut it; and note and count that."""
    limit = right.terms.limit
    if limit is None or (before is not None and before.terms.limit == limit):
        return
    problem, until = PolicyRefusal("POLICY-GRANTS-LEFT-OUT", (limit,)), right.view.until
    turn.send(link, Changed(ref, None if until is None else int(until), problem.code, problem.message))
    turn.note("grants-left-out", code=problem.code, principal=str(right.principal), why=problem.message)
    turn.count("maia_grants_left_out_total")
