"""Is a principal entitled to what another broker wants, or offers, on its behalf?

The edge has decided it. Any broker on the way may decide it again, always, at
times, or never (C9): the signed request is from the principal it names, and a
chain of certificates leads from the owner of the type to that principal. No
definition is needed for that, so a broker can verify types it has never met.
A publisher of a sub-type offers its super-types too: then the definition of
the sub-type comes along, and leads to the super-type by rights to `extend`.
Certificates that are known here not to count any more are no proof.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from maia.broker.interests.entries import Proof
from maia.broker.interests.routes import Neighbour
from maia.broker.own import Own
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.known_types import KnownTypes
from maia.broker.rights.validity import ValidityTracker
from maia.credentials import (
    Action,
    Budget,
    Principal,
    SearchTooLarge,
    SignedCertificate,
    TypeName,
    VerificationCache,
    VerifiedChain,
    find_chains,
)
from maia.credentials.chains.flows import DEFAULT_LIMITS
from maia.errors import MaiaError, ProtocolViolation, Refusal
from maia.events import Instant
from maia.predicates import AllOf, Predicate, covers, union
from maia.types import type_id, validity_type_name
from maia.wire.names import filter_to_bytes
from maia.wire.requests import request_from_bytes, verify_proof

_CHAINS_SHARED: Final = 4096
_PROOF_AGE_S: Final = 10 * 366 * 86_400
"""A proof says that a client asked. That it still does is what leases are for, so its age hardly counts."""


@dataclass(frozen=True, slots=True)
class Proved:
    """The part of an interest that a proof entitles to, and the certificates that this depends on."""

    filter: Predicate = field(repr=False)
    watched: frozenset[bytes] = field(repr=False)


@dataclass(slots=True, eq=False, repr=False)
class Proofs:
    """Whether principals are entitled to what is wanted or offered on their behalf."""

    own: Own
    certificates: VerificationCache
    authoriser: Authoriser
    types: KnownTypes
    statements: ValidityTracker

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
    ) -> Proved:
        """Return the part of `wanted` that the proof entitles to, or raise what is wrong with the proof.

        `budget` is what is left of the work for the message that it came with.
        """
        budget = self.authoriser.budget_of_message() if budget is None else budget
        name, signer = self._asked(kind, proof, Action.SUBSCRIBE, now, budget)
        if isinstance(name.owner, Principal) and name == validity_type_name(name.owner):
            return Proved(wanted, frozenset())  # validity statements are for all
        chains = self._chains(proof, Action.SUBSCRIBE, name, signer, now, budget)
        granted = union(chain.authority.restriction for chain in chains)
        # An honest edge has joined the restrictions to the filter, and then nothing is taken away here.
        if covers(wide=granted, narrow=wanted):
            return Proved(wanted, _watched(chains))
        narrowed = AllOf((wanted, granted))
        filter_to_bytes(narrowed)  # refused if it could not be passed on
        return Proved(narrowed, _watched(chains))

    def prove_offer(self, kind: bytes, proof: Proof, now: Instant) -> frozenset[bytes]:
        """Return the certificates by which the signer may publish this type, or raise what is wrong."""
        budget = self.authoriser.budget_of_message()
        name, signer = self._asked(kind, proof, Action.PUBLISH, now, budget)
        watched = _watched(self._chains(proof, Action.PUBLISH, name, signer, now, budget))
        if type_id(name.owner, name.name) == kind:
            return watched
        return watched | self._prove_extension(kind, name, proof, now, budget)

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
            doubted = {
                signed.id: len(signed.body) for signed in shown if self.statements.is_refused(signed, now)
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
            age_max_s=_PROOF_AGE_S,
            network=settings.network,
        )
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
        name: TypeName,
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


def _watched(chains: tuple[VerifiedChain, ...]) -> frozenset[bytes]:
    return _kept_once(frozenset([signed.id for chain in chains for signed in chain.certificates]))


@lru_cache(maxsize=_CHAINS_SHARED)
def _kept_once(certificates: frozenset[bytes]) -> frozenset[bytes]:
    """Return the same object for equal sets: a client wants many things by the same certificates."""
    return certificates
