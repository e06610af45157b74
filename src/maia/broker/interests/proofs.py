"""Is a principal entitled to what another broker wants, or offers, on its behalf?

The edge has decided it. Any broker on the way may decide it again, always, at
times, or never (C9): the signed request is from the principal it names, and a
chain of certificates leads from the owner of the type to that principal. No
definition is needed for that, so a broker can verify types it has never met.
A publisher of a sub-type offers its super-types too: then the definition of
the sub-type comes along, and leads to the super-type by rights to `extend`.
Certificates that are known here not to count any more are no proof. Neither is
a request that is older than a client leaves it, or than the newest one of the same
client for the same: a broker that was shown one cannot repeat it later (C15, A106).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from maia.bounded_map import BoundedMap
from maia.broker.interests.entries import Proof, new_proof
from maia.broker.interests.routes import Neighbour
from maia.broker.own import Own
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.validity import ValidityTracker
from maia.credentials import (
    Action,
    AllAttributes,
    Authority,
    Budget,
    NetworkName,
    Principal,
    SearchTooLarge,
    SignedCertificate,
    TypeName,
    VerificationCache,
    VerifiedChain,
    find_chains,
    principal_from_bytes,
)
from maia.credentials.authority import ALL_ATTRIBUTES, AttributeSet, Bound
from maia.credentials.chains.flows import DEFAULT_LIMITS
from maia.credentials.identity import VerifiedIdentity, identity_from_bytes
from maia.errors import BrokenCredential, MaiaError, ProtocolViolation, Refusal
from maia.events import INSTANT_MIN, Instant, seconds_after
from maia.policy import Request, View
from maia.policy.claims import World, as_said
from maia.policy.evidence import permits
from maia.policy.view import Window, attributes_told, has_as_many, is_for_one, window_of
from maia.policy.view_bytes import view_from_bytes
from maia.predicates import AllOf, Predicate, covers, union
from maia.sessions.admission import no_right
from maia.types import type_id, validity_type_name
from maia.types.verified import certificates_type_name, for_subject, is_for_all
from maia.wire.messages import ShownRight
from maia.wire.names import filter_to_bytes, type_from_bytes
from maia.wire.requests import digest_of_asked, request_from_bytes, verify_proof

_CHAINS_SHARED: Final = 4096
_RIGHTS_REMEMBERED: Final = 16_384


@dataclass(frozen=True, slots=True)
class Proved:
    """The part of an interest that a proof entitles to, and the certificates that this depends on."""

    filter: Predicate = field(repr=False)
    watched: frozenset[bytes] = field(repr=False)
    begins: tuple[Instant, ...] = ()
    """Since when it is entitled to some of it, or to more: nothing for what is for all, at any time."""
    until: Instant | None = None
    """Up to when a border's own answers hold: an hour that was asked for ends then."""


@dataclass(slots=True, eq=False, repr=False)
class Proofs:
    """Whether principals are entitled to what is wanted or offered on their behalf."""

    own: Own
    certificates: VerificationCache
    authoriser: Authoriser
    types: KnownTypes
    statements: ValidityTracker
    _begun: BoundedMap[Hashable, tuple[Instant, VerifiedChain]] = field(init=False)
    """Since when a right was held without a pause, by whom and to what, and the certificates it ends with."""
    newest: BoundedMap[bytes, Instant] = field(init=False)
    """When what clients ask for was signed last, as far as it was verified here: nothing older counts."""

    _served: BoundedMap[tuple[bytes, Action], tuple[object, Instant, Instant, AttributeSet]] = field(
        init=False
    )
    """By which certificates this broker may do things itself, from when to when that is not asked, and of
    which attributes.
    """

    def __post_init__(self) -> None:
        """Begin without memory: whatever it could refuse is too old in some minutes."""
        self._served = BoundedMap(self.own.settings.limits.types)
        self._begun = BoundedMap(_RIGHTS_REMEMBERED)
        self.newest = BoundedMap(self.own.settings.limits.requests_remembered)

    def stale_at(self, signed_at: Instant) -> Instant:
        """Return from when on a request counts here no more, however good it is (C15)."""
        settings = self.own.settings
        return seconds_after(signed_at, settings.request_age_s + settings.skew_s)

    def check_age(self, signed_at: Instant | None, now: Instant) -> None:
        """Refuse a request that was signed too long ago: its client would have signed another one since."""
        if signed_at is not None and now > self.stale_at(signed_at):
            raise Refusal(
                "REQUEST-TOO-LATE",
                f"the request behind an interest or offer was signed at `{signed_at}`, and counts for "
                f"{self.own.settings.request_age_s} seconds: its client has to sign it again",
            )

    def forget_stale(self, now: Instant) -> None:
        """Forget when requests were signed that count no more, and are refused for that."""
        for asked in [one for one, signed_at in self.newest.items() if now > self.stale_at(signed_at)]:
            self.newest.pop(asked)

    def is_to_be_verified(self) -> bool:
        """Say, with the configured probability, whether the next proof is verified here."""
        share = self.own.settings.verify_in_transit
        return share > 0 and (share >= 1 or int.from_bytes(self.own.random(4), "big") < share * (1 << 32))

    def proved_filter(
        self,
        kind: bytes,
        proof: Proof,
        wanted: Predicate,
        now: Instant,
        budget: Budget | None = None,
        *,
        is_released: bool = False,
        begun_by: Instant | None = None,
    ) -> Proved:
        """Return the part of `wanted` that the proof entitles to, or raise what is wrong with the proof.

        `budget` is what is left of the work for the message that it came with. Where frames are released for
        it at a border, the proof has to entitle to all that its View shows, too. With `begun_by`, rights that
        began later do not count.
        """
        budget = self.authoriser.budget_of_message() if budget is None else budget
        name, signer = self._asked(kind, proof, Action.SUBSCRIBE, now, budget)
        until: Instant | None = None
        if isinstance(name.owner, Principal) and name == validity_type_name(name.owner):
            return Proved(wanted, frozenset())  # validity statements are for all
        if isinstance(name.owner, Principal) and name == certificates_type_name(name.owner):
            granted, watched = for_subject(signer), frozenset[bytes]()  # certificates are for their subject
            begins: tuple[Instant, ...] = ()
        else:
            chains = self._chains(proof, Action.SUBSCRIBE, name, signer, now, budget)
            chains = _within_bounds(chains, proof)
            began = [(one, self._began(one, now)) for one in sorted(chains, key=_first_moment)]
            chains = tuple([one for one, since in began if begun_by is None or since <= begun_by])
            begins = tuple(sorted({since for _, since in began}))
            granted, watched = union(_most_wanted(one.authority) for one in chains), _watched(chains)
            if is_released:
                wanted, until = self._released(proof, chains, signer, wanted, now, budget)
        # An honest edge has joined the restrictions to the filter, and then nothing is taken away here.
        if covers(wide=granted, narrow=wanted):
            return Proved(wanted, watched, begins, until)
        narrowed = AllOf((wanted, granted))
        filter_to_bytes(narrowed)  # refused if it could not be passed on
        return Proved(narrowed, watched, begins, until)

    def _began(self, chain: VerifiedChain, now: Instant) -> Instant:
        """Return since when a right is held: one that is renewed in time, and was not revoked, goes on."""
        began = _first_moment(chain)
        about = chain.root, chain.subject, chain.authority
        known = self._begun.get(about)
        if known is not None and known[0] < began:
            since, before = known
            ends, is_same = before.validity.not_after, before.certificates == chain.certificates
            is_held = ends is None or began <= seconds_after(ends, 1)
            if is_same or (
                is_held and not any(self.statements.is_refused(one, now) for one in before.certificates)
            ):
                began = since
        self._begun.put(about, (began, chain))
        return began

    def _released(
        self,
        proof: Proof,
        chains: tuple[VerifiedChain, ...],
        holder: Principal,
        wanted: Predicate,
        now: Instant,
        budget: Budget,
    ) -> tuple[Predicate, Instant | None]:
        """Return the part of a filter that the View of a proof admits; refuse a View that is not proved.

        With it comes the moment up to which that holds, by the time alone.
        """
        view, identity = view_from_bytes(proof.view), self._identity_of(holder, proof, now, budget)
        world = self.authoriser.world_at_a_border(holder, now, identity)
        check_entitled(view, [one.authority for one in chains if world.may_grant(one)], holder, world)
        ends = world.steady_until(one.authority for one in chains)
        if identity is not None:
            ends = identity.statement.not_after if ends is None else min(ends, identity.statement.not_after)
        return _within(view, wanted), ends

    def _identity_of(
        self, holder: Principal, proof: Proof, now: Instant, budget: Budget
    ) -> VerifiedIdentity | None:
        """Return what a provider that is trusted here says of a subscriber, if that came along and counts."""
        trust = self.own.settings.identity
        if trust is None or proof.identity is None:
            return None
        budget.spend_check()
        with suppress(MaiaError):  # of another provider, or over: then nothing is known of the holder
            return trust.verified_signed(identity_from_bytes(proof.identity), holder, now)
        return None

    def prove_offer(self, kind: bytes, proof: Proof, now: Instant) -> frozenset[bytes]:
        """Return the certificates by which the signer may publish this type, or raise what is wrong."""
        budget = self.authoriser.budget_of_message()
        name, signer = self._asked(kind, proof, Action.PUBLISH, now, budget)
        chains = _within_bounds(self._chains(proof, Action.PUBLISH, name, signer, now, budget), proof)
        watched = _watched(chains)
        if type_id(name.owner, name.name) == kind:
            return watched
        return watched | self._prove_extension(kind, name, proof, now, budget)

    def prove_right(self, shown: ShownRight, now: Instant) -> tuple[tuple[VerifiedChain, ...], ...]:
        """Return the chains by which publisher and signer of signed frames may publish them, or raise."""
        budget = self.authoriser.budget_of_message()
        name, proof = type_from_bytes(shown.name), new_proof(None, shown.credentials)
        people = dict.fromkeys((principal_from_bytes(shown.publisher), principal_from_bytes(shown.signer)))
        found = tuple([self._chains(proof, Action.PUBLISH, name, one, now, budget) for one in people])
        if type_id(name.owner, name.name) != shown.type_id:
            self._prove_extension(shown.type_id, name, proof, now, budget)
        return found

    def missed_statements(self, shown: ShownRight, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return the certificates by which a right would hold if statements about them had arrived.

        None, if it would not hold with these either.
        """
        budget, name = self.authoriser.budget_of_message(), type_from_bytes(shown.name)
        pool, used = self.authoriser.pool_of_stranger(shown.credentials, budget, name.owner), set[bytes]()
        missed = [signed for signed in pool if self.statements.awaits((signed,), now)]
        counting = (*missed, *self._counting(pool, now))
        try:
            for one in {shown.publisher, shown.signer}:
                who = principal_from_bytes(one)
                chains = self._search(counting, Action.PUBLISH, name, who, now, budget)
                used.update(signed.id for chain in chains for signed in chain.certificates)
        except MaiaError:
            return ()
        return tuple(signed for signed in missed if signed.id in used)

    def chains_to(self, principal: Principal, name: TypeName, now: Instant) -> tuple[VerifiedChain, ...]:
        """Return the chains by which this broker's certificates let it publish a type, or raise."""
        pool, budget = self.own.settings.credentials, self.authoriser.budget_of_message()
        return self._search(self._counting(pool, now), Action.PUBLISH, name, principal, now, budget)

    def _prove_extension(
        self, kind: bytes, name: TypeName, proof: Proof, now: Instant, budget: Budget
    ) -> frozenset[bytes]:
        """Return the certificates by which a type is a sub-type of `kind`, or raise what is wrong."""
        watched: frozenset[bytes] = frozenset()
        for signer, above, pool in self._levels(kind, name, proof, now, budget):
            if pool:
                chains = self._search(self._counting(pool, now), Action.EXTEND, above, signer, now, budget)
                self.statements.met(pool, frozenset([one.id for one in pool]))
                watched |= _watched(chains)
        return watched

    def _levels(
        self, kind: bytes, name: TypeName, proof: Proof, now: Instant, budget: Budget
    ) -> list[tuple[Principal, TypeName, tuple[SignedCertificate, ...]]]:
        """Return, for each type on the way to a super-type, who extends what by which certificates."""
        below = self.types.verify(proof.definitions, now, budget)
        if below is None or below.name != name:
            raise Refusal(
                "REFUSED-NOT-PROVED", "the definition behind an offer is of another type than its request"
            )
        levels: list[tuple[Principal, TypeName, tuple[SignedCertificate, ...]]] = []
        for above in below.super_types:
            pool = {signed.id: signed for chain in below.extension for signed in chain.certificates}
            levels.append((below.signer, above.name, tuple(pool.values())))
            if above.type_id == kind:
                return levels
            below = above
        raise Refusal(
            "REFUSED-NOT-PROVED", "the definition behind an offer is no sub-type of what is offered"
        )

    def own_right(self, action: Action, name: TypeName, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return the certificates by which this broker itself may do this with a type, or raise (C16).

        Whether they count at this moment is looked at when something is to be served: the reason may be that
        a client's right has ended with the broker's, and the client is to know that.
        """
        pool, budget = self.own.settings.credentials, self.authoriser.budget_of_message()
        chains = self._search(pool, action, name, self.own.principal, now, budget)
        return tuple({signed.id: signed for chain in chains for signed in chain.certificates}.values())

    def is_open(self, now: Instant) -> bool:
        """Return whether the coordinator lets this broker serve types that it has no right to."""
        return bool(self._own_chains(Action.SERVE, self.own.settings.network, now))

    def _own_chains(
        self, action: Action, name: NetworkName | TypeName, now: Instant
    ) -> tuple[VerifiedChain, ...]:
        pool, budget = self._counting(self.own.settings.credentials, now), self.authoriser.budget_of_message()
        with suppress(BrokenCredential):
            return self._search(pool, action, name, self.own.principal, now, budget)
        return ()

    def check_served(self, request: Request, right: View, now: Instant) -> None:
        """Refuse to serve a type to which this broker has no such right itself, unless the network is open.

        Such a right is about all attributes that the client's is (MAIA 5.1.3).
        """
        action, event_type = request.action, request.event_type
        if event_type is None:
            return
        name, held = event_type.name, self._served_attributes(action, event_type.name, now)
        defined = [one.uid for one in event_type.attributes]
        if held is None or not has_as_many(held, attributes_told(right.windows), defined):
            raise no_right(self.own.principal, action, name, has_some=held is not None)

    def _served_attributes(self, action: Action, name: TypeName, now: Instant) -> AttributeSet | None:
        """Return which attributes of a type this broker serves; None without any right to it."""
        settings, about = self.own.settings, (type_id(name.owner, name.name), action)
        known = self._served.get(about)
        if known is not None and known[0] is settings.credentials and known[1] <= now < known[2]:
            return known[3]
        found: AttributeSet = ALL_ATTRIBUTES
        if not (is_for_all(name) or self.is_open(now)):
            chains = self._own_chains(action, name, now)
            if not chains:
                return None
            found = attributes_told(window_of(one.authority, action) for one in chains)
        self._served.put(about, (settings.credentials, now, seconds_after(now, settings.lease_s), found))
        return found

    def remember_refusal(
        self, neighbour: Neighbour, kind: bytes, proof: Proof, action: Action, now: Instant
    ) -> None:
        """Take note of what would be a proof if it counted: when it does, the neighbour is to tell all again.

        Whatever else was shown proves nothing at any time, and is forgotten: any broker can make it up (A89).
        """
        with suppress(MaiaError):  # what is wrong with it may be that it cannot be read
            if proof.request is None:
                return
            budget = self.authoriser.budget_of_message()
            asked = request_from_bytes(proof.request).request.event_type
            pool = self.authoriser.pool_of_stranger(proof.certificates, budget, asked.owner)
            above: tuple[SignedCertificate, ...] = ()
            if action is Action.PUBLISH and proof.definitions:
                levels = self._levels(kind, asked, proof, now, budget)
                above = tuple([signed for _, _, certificates in levels for signed in certificates])
            shown = (*pool, *above)
            # What asks for facts may count when other facts are stated.
            asking = self.statements.conditional
            doubted = {
                signed.id: len(signed.body)
                for signed in shown
                if signed.id in asking or self.statements.is_refused(signed, now)
            }
            if not doubted:
                return
            name, signer = self._asked(kind, proof, action, now, budget)
            chains = self._search(pool, action, name, signer, now, budget)
            used = {signed.id for chain in chains for signed in chain.certificates}
            used.update(signed.id for signed in above)
            missed = {one: size for one, size in doubted.items() if one in used}
            neighbour.remember_refusal(missed)
            self.statements.met(shown, frozenset(missed))
            self.statements.dependencies.note(neighbour.link, frozenset(missed))

    def _asked(
        self, kind: bytes, proof: Proof, action: Action, now: Instant, budget: Budget
    ) -> tuple[TypeName, Principal]:
        """Return what was asked for, and by whom, if that is what the interest or offer is about."""
        settings = self.own.settings
        if proof.request is None:
            raise Refusal(
                "REFUSED-NOT-PROVED", "an interest or offer came without the request that caused it"
            )
        budget.spend_check()
        verified = verify_proof(
            request_from_bytes(proof.request),
            at=now,
            skew_s=settings.skew_s,
            age_max_s=settings.request_age_s,
            network=settings.network,
        )
        asked, at = digest_of_asked(verified.signed), verified.request.at
        if at < (self.newest.get(asked) or at):
            raise Refusal(
                "REQUEST-SUPERSEDED",
                "the client behind an interest or offer has signed a newer request since",
            )
        self.newest.put(asked, at)
        name = verified.request.event_type
        is_above = action is Action.PUBLISH and bool(proof.definitions)  # looked at in `_levels`
        is_about_it = is_above or type_id(name.owner, name.name) == kind
        if verified.request.action is not action or not is_about_it:
            raise Refusal(
                "REFUSED-NOT-PROVED", "the request behind an interest or offer is about something else"
            )
        return name, verified.signer

    def _chains(
        self,
        proof: Proof,
        action: Action,
        name: TypeName,
        signer: Principal,
        now: Instant,
        budget: Budget,
    ) -> tuple[VerifiedChain, ...]:
        pool = self.authoriser.pool_of_stranger(proof.certificates, budget, name.owner)
        chains = self._search(self._counting(pool, now), action, name, signer, now, budget)
        used = tuple([signed for chain in chains for signed in chain.certificates])
        self.statements.met(used, frozenset([signed.id for signed in used]))
        return chains

    def _counting(self, pool: tuple[SignedCertificate, ...], now: Instant) -> tuple[SignedCertificate, ...]:
        refused = {signed.id for signed in pool if self.statements.is_refused(signed, now)}
        return tuple([one for one in pool if one.id not in refused]) if refused else pool

    def _search(
        self,
        pool: tuple[SignedCertificate, ...],
        action: Action,
        name: NetworkName | TypeName,
        signer: Principal,
        now: Instant,
        budget: Budget,
    ) -> tuple[VerifiedChain, ...]:
        chains_max = self.own.settings.limits.chains_per_request
        return find_chains(
            pool,
            root=name.owner,
            subject=signer,
            action=action,
            resource=name,
            at=now,
            cache=self.certificates,
            constitutions=self.own.settings.constitutions,
            limits=replace(DEFAULT_LIMITS, chains_max=chains_max, flows_per_subject_max=chains_max),
            budget=budget,
        )


def check_entitled(view: View, granted: Sequence[Authority], holder: Principal, world: World) -> None:
    """Refuse a View that shows more than was granted to its holder.

    Of what rules ask of the world, the answers are its holder's broker's where nothing is known here, nor
    could be.
    """
    is_its_own = view.recipient == (holder.key if any(map(is_for_one, view.windows)) else b"")
    for window in view.windows:
        wide = [one.restriction for one in granted if _shows_as_much(one, window, world)]
        if not is_its_own or not wide or not covers(wide=union(wide), narrow=window.admits):
            raise Refusal(
                "REFUSED-VIEW-NOT-PROVED",
                "an interest asks this border for more than the certificates that came with it show",
            )


def _shows_as_much(authority: Authority, window: Window, world: World) -> bool:
    """Return whether a grant shows all that a window does; bounds at the holder's broker take some away."""
    steps, own = authority.transformations, window.transformations
    if not steps or not own:
        return steps == own and _are_among(window.attributes, authority.attributes)
    if len(steps) != len(own) or window.attributes != authority.attributes:
        return False
    asked = tuple(map(as_said, own, steps))
    last = replace(asked[-1], attributes=steps[-1].attributes)
    is_granted = (*asked[:-1], last) == steps and _are_among(own[-1].attributes, steps[-1].attributes)
    return is_granted and world.may_have_answered(own, steps)


def _are_among(narrow: AttributeSet, wide: AttributeSet) -> bool:
    if isinstance(wide, AllAttributes):
        return True
    return not isinstance(narrow, AllAttributes) and narrow <= wide


def _within(view: View, wanted: Predicate) -> Predicate:
    """Return the part of a filter that the windows of a View admit."""
    admitted = union(window.admits for window in view.windows)
    if covers(wide=admitted, narrow=wanted):
        return wanted
    narrowed = AllOf((wanted, admitted))
    filter_to_bytes(narrowed)  # refused if it could not be passed on
    return narrowed


def spend_on(budget: Budget, size: int) -> None:
    """Pay for reading one more entry of a message; a message that takes too much work ends its link (A87)."""
    try:
        budget.spend(1)
        budget.spend_reading(size)
    except SearchTooLarge:
        raise ProtocolViolation(
            "PROTOCOL-TOO-MUCH-AT-ONCE",
            "this message takes more work than one message may: tell less at once",
        ) from None


def _within_bounds(chains: tuple[VerifiedChain, ...], proof: Proof) -> tuple[VerifiedChain, ...]:
    """Return the chains whose bounds let in what was asked for, or announced; raise if none does."""
    if not any(chain.authority.bounds for chain in chains) or proof.request is None:
        return chains
    asked = request_from_bytes(proof.request).request.filter
    left = tuple(one for one in chains if all(permits(bound, asked) for bound in one.authority.bounds))
    if not left:
        raise Refusal("REFUSED-NOT-PROVED", "what is asked for lies outside the bounds of every certificate")
    return left


def _first_moment(chain: VerifiedChain) -> Instant:
    return Instant(INSTANT_MIN) if chain.validity.not_before is None else chain.validity.not_before


def _most_wanted(authority: Authority) -> Predicate:
    """Return which events a right may lead here: its restriction, within its upper bounds."""
    upper = [one.filter for one in authority.bounds if one.bound in (Bound.UPPER, Bound.STRICT_UPPER)]
    return AllOf((authority.restriction, *upper)) if upper else authority.restriction


def _watched(chains: tuple[VerifiedChain, ...]) -> frozenset[bytes]:
    return _kept_once(frozenset([signed.id for chain in chains for signed in chain.certificates]))


@lru_cache(maxsize=_CHAINS_SHARED)
def _kept_once(certificates: frozenset[bytes]) -> frozenset[bytes]:
    """Return the same object for equal sets: a client wants many things by the same certificates."""
    return certificates
