"""Who can see what of one event type, by all the certificates of a pool?

A broker asks this of one principal at one moment. Here it is asked of everybody and of all moments at
once, with the same functions: certificates are composed by the kernel's reduction, each chain that is
found is verified by `verify_chain`, and `decide` says what it shows. What is shared is the way: chains
are extended from the owner on, so that the chains of a thousand people who are granted something by one
department have one reduction up to the department in common, and what two chains amount to is worked
out once.

They are extended in rounds: what the last round has found is joined with the certificates that its holders
have issued. A pool that one process holds is walked here, one that many machines hold by joins of tables
(`rounds.py`), with the same steps.

Where a threshold takes part, or owns the type, the kernel's own search is run for each principal.

A grant is one chain. It holds in a period, under a condition and after tests, all of which it names: the
grants of a principal at a moment, under conditions that hold, add up to what a broker decides then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from maia.credentials.authority import (
    ALL_ATTRIBUTES,
    Action,
    Authority,
    AuthorityTooLarge,
    composed,
    covers_request,
)
from maia.credentials.certificate import (
    UNBOUNDED,
    AuthorisationCertificate,
    NameCertificate,
    SignedCertificate,
    Validity,
)
from maia.credentials.chains.chain import (
    VerificationCache,
    VerifiedChain,
    owner_chain,
    root_terminal,
    verify_chain,
    verify_needed,
)
from maia.credentials.chains.flows import (
    DEFAULT_LIMITS,
    Flow,
    Rules,
    certificates_of,
    flow_search,
    hinges_of,
    needed,
)
from maia.credentials.chains.quorum import VerifiedConstitution, leaves
from maia.credentials.chains.reduction import (
    Budget,
    NameBook,
    SearchTooLarge,
    UnknownQuorum,
    includes,
    name_book,
)
from maia.credentials.keys import Principal, Threshold
from maia.errors import BrokenCredential
from maia.events import AttributeUid, Instant
from maia.expressions.language import format_rule
from maia.policy import Evidence, Facts, Permit, Request, decide
from maia.policy.view import converts_to, keeps, kinds_shown
from maia.predicates.language.writer import format_predicate
from maia.predicates.syntax import ALWAYS, Exists, Predicate, atoms
from maia.types import VerifiedType

PATHS_MAX: Final = DEFAULT_LIMITS.flows_per_subject_max
"""Chains of one principal that are followed, as many as a broker follows; `Reach.left_out` counts others."""
_STEPS_MAX: Final = 1 << 40
_NO_HINGES: Final = frozenset[object]()


@dataclass(frozen=True, slots=True)
class ShownAttribute:
    """One attribute that a grant shows."""

    uid: AttributeUid
    name: str
    is_transformed: bool


@dataclass(frozen=True, slots=True)
class Sight:
    """What a grant shows of a type, of which events, under which condition; in words."""

    attributes: tuple[ShownAttribute, ...]
    where: str
    condition: str
    transformation: str
    shown_as: str


@dataclass(frozen=True, slots=True)
class ReachedGrant:
    """What one chain shows to one principal during a period."""

    principal: Principal
    period: Validity
    may_delegate: bool
    sight: Sight
    certificates: tuple[SignedCertificate, ...] = field(repr=False)


class _Supposed(Facts):
    """Facts under which every condition holds: a grant names its condition instead."""

    def satisfy(self, condition: Predicate, *, of: Principal | None, now: Instant) -> bool:
        """Suppose that it does."""
        return True


_SUPPOSED: Final = _Supposed()


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """A chain from the owner up to one holder, reduced."""

    authority: Authority | None
    validity: Validity
    may_delegate: bool
    hinges: frozenset[object]
    certificates: tuple[SignedCertificate, ...]


START: Final = Path(None, UNBOUNDED, may_delegate=True, hinges=_NO_HINGES, certificates=())


def covers_type(signed: SignedCertificate, event_type: VerifiedType) -> bool:
    """Return whether a certificate could be part of a chain for reading a type."""
    certificate = signed.certificate
    return isinstance(certificate, AuthorisationCertificate) and covers_request(
        certificate.authority, Action.SUBSCRIBE, event_type.name
    )


def sought_by(signed: SignedCertificate) -> frozenset[AttributeUid]:
    """Return the attributes whose presence a certificate asks for."""
    one = signed.certificate
    if not isinstance(one, AuthorisationCertificate):
        return frozenset()
    return frozenset(atom.uid for atom in atoms(one.authority.restriction) if isinstance(atom, Exists))


class Reach:
    """All grants of one type in a pool; `grants` walks it once."""

    __slots__ = (
        "_at", "_authorities", "_book", "_cache", "_composed", "_constitutions", "_ends", "_event_type",
        "_hinges", "_included", "_issued", "_names", "_pool", "_sights", "_sought", "_trusted", "left_out",
    )  # fmt: skip

    def __init__(
        self,
        event_type: VerifiedType,
        pool: Iterable[SignedCertificate],
        *,
        at: Instant,
        constitutions: Sequence[VerifiedConstitution] = (),
        cache: VerificationCache | None = None,
        ends: Mapping[bytes, Instant] | None = None,
        sought: frozenset[AttributeUid] | None = None,
    ) -> None:
        """File the pool; `at` is a moment of the present, for types and chains without an end.

        `ends` are the last moments of certificates that were revoked, by id: a question about the past.
        `sought` are the attributes whose presence a certificate asks for, where the pool is not all there is.
        """
        self._ends = {} if ends is None else ends
        self._event_type, self._at, self._constitutions = event_type, at, tuple(constitutions)
        self._cache = VerificationCache() if cache is None else cache
        by_id = {(one.id, one.signature): one for one in pool}
        self._pool = tuple(
            one
            for _, one in sorted(by_id.items())
            if isinstance(one.certificate, NameCertificate) or covers_type(one, event_type)
        )
        self._issued: dict[Principal, list[SignedCertificate]] = {}
        for one in self._pool:
            if isinstance(one.certificate, AuthorisationCertificate):
                self._issued.setdefault(one.certificate.issuer, []).append(one)
        self._sought = frozenset().union(*map(sought_by, self._pool)) if sought is None else sought
        self._names = {one.uid: one.name for one in event_type.attributes}
        self._trusted: dict[tuple[bytes, bytes], bool] = {}
        self._book: NameBook = name_book(self._pool, self._trusts, self._bounded_names())
        # Equal authorities have one identity here, so that pairs of them can be looked up by it.
        self._authorities: dict[Authority, Authority] = {}
        self._composed: dict[tuple[int, int], Authority | None] = {}
        self._included: dict[tuple[int, int], bool] = {}
        self._hinges: dict[bytes, frozenset[object]] = {}
        self._sights: dict[int, Sight | None] = {}
        self.left_out = 0
        """Chains that were found and not followed, because their holder had enough others."""

    def grants(
        self, only: frozenset[Principal] | None = None, *, with_owner: bool = True
    ) -> Iterator[ReachedGrant]:
        """Yield every grant of a principal, or of those in `only`; the owner's own first."""
        owner = self._event_type.name.owner
        if isinstance(owner, Principal):
            own = self.owner_grant() if with_owner else None
            if own is not None and (only is None or owner in only):
                yield own
            if not any(isinstance(one.certificate.subject, Threshold) for one in self._pool):
                yield from self._from_owner(owner, only)
                return
        yield from self._one_by_one(only)

    # ------------------------------------------------------------ all principals at once

    def _from_owner(self, owner: Principal, only: frozenset[Principal] | None) -> Iterator[ReachedGrant]:
        for holder, paths in self._paths(owner).items():
            if only is None or holder in only:
                yield from (grant for path in paths if (grant := self.granted(holder, path)) is not None)

    def _paths(self, owner: Principal) -> dict[Principal, list[Path]]:
        """Return the chains of each principal, round by round, none of which another makes needless."""
        kept: dict[Principal, list[Path]] = {}
        frontier = [(owner, START)]
        while frontier:
            new = [
                (holder, longer)
                for holder, longer in self._longer(frontier)
                if holder != owner and self.keep(kept.setdefault(holder, []), longer)
            ]
            # One that was found in this round may be needless by the end of it.
            frontier = [(holder, one) for holder, one in new if one.may_delegate and one in kept[holder]]
        return kept

    def _longer(self, frontier: Iterable[tuple[Principal, Path]]) -> Iterator[tuple[Principal, Path]]:
        for issuer, path in frontier:
            for signed in filter(self._trusts, self._issued.get(issuer, ())):
                for meaning in self._book.meanings(signed.certificate.subject, Budget(_STEPS_MAX)):
                    holder, longer = meaning.subject, self.extended(path, signed, meaning.through)
                    if isinstance(holder, Principal) and longer is not None:
                        yield holder, longer

    def extended(
        self, path: Path, signed: SignedCertificate, through: tuple[SignedCertificate, ...] = ()
    ) -> Path | None:
        """Return a chain with one certificate more, and the names of its subject; None if it is empty."""
        certificate = signed.certificate
        assert isinstance(certificate, AuthorisationCertificate)  # noqa: S101 - only those are filed
        used = (signed, *through)
        if len(path.certificates) + len(used) > DEFAULT_LIMITS.certificates_max:
            return None
        authority = self._reduced(path.authority, self._one(certificate.authority))
        validity = path.validity
        for one in used:
            if one.certificate.validity is not UNBOUNDED:
                validity = validity.intersection(one.certificate.validity)
            if one.id in self._ends:
                validity = validity.intersection(Validity(None, self._ends[one.id]))
        if authority is None or validity.is_empty:
            return None
        hinges = path.hinges | self._hinges_of(signed)
        # A name certificate may serve two links of one chain.
        certificates = tuple({one.id: one for one in (*path.certificates, *used)}.values())
        return Path(authority, validity, certificate.may_delegate, hinges, certificates)

    def _reduced(self, first: Authority | None, second: Authority) -> Authority | None:
        if first is None or first is second:
            return second
        pair = id(first), id(second)
        if pair not in self._composed:
            try:
                found = composed(first, second)
            except AuthorityTooLarge:
                found = None
            self._composed[pair] = None if found is None else self._one(found)
        return self._composed[pair]

    def _one(self, authority: Authority) -> Authority:
        return self._authorities.setdefault(authority, authority)

    def _hinges_of(self, signed: SignedCertificate) -> frozenset[object]:
        """Return the terms of a certificate that may take an event, or the whole grant, away."""
        found = self._hinges.get(signed.id)
        if found is None:
            certificate = signed.certificate
            assert isinstance(certificate, AuthorisationCertificate)  # noqa: S101 - only those are filed
            found = self._hinges[signed.id] = hinges_of(certificate)
        return found

    def keep(self, kept: list[Path], path: Path) -> bool:
        """Keep a path unless a kept one grants as much, and let go of those that it makes needless."""
        if any(self._is_as_good(one, path) for one in kept):
            return False
        kept[:] = [one for one in kept if not self._is_as_good(path, one)]
        if len(kept) >= PATHS_MAX:
            self.left_out += 1
            return False
        kept.append(path)
        return True

    def _is_as_good(self, one: Path, other: Path) -> bool:
        """Return whether `one` surely grants what `other` grants, as `flows.at_least_as_good` does."""
        if not one.hinges <= other.hinges or (other.may_delegate and not one.may_delegate):
            return False
        if one.validity is not other.validity and not one.validity.outlasts(other.validity):
            return False
        if one.authority is other.authority:
            return True
        if one.authority is None or other.authority is None:
            return one.authority is None
        return self._inclusion(one.authority, other.authority)

    def _inclusion(self, wide: Authority, narrow: Authority) -> bool:
        """Work out, once for each pair, whether one authority surely includes another."""
        pair = id(wide), id(narrow)
        if pair not in self._included:
            # That an attribute is missing may let a later restriction admit more, where it is hidden.
            shown, fewer = wide.attributes, narrow.attributes
            is_alike = fewer is ALL_ATTRIBUTES or all(
                uid in fewer or (shown is not ALL_ATTRIBUTES and uid not in shown) for uid in self._sought
            )
            self._included[pair] = is_alike and includes(wide=wide, narrow=narrow)
        return self._included[pair]

    # ------------------------------------------------------------ one principal after the other

    def searched(self) -> frozenset[Principal]:
        """Return the principals that the pool, or the quorum that owns the type, names."""
        owner = self._event_type.name.owner
        try:
            root = root_terminal(owner, self._constitutions)
        except UnknownQuorum:
            return frozenset()
        named = {member for one in self._pool for member in _leaves_of(one) if isinstance(member, Principal)}
        if isinstance(root, Threshold):
            named |= {member for member in leaves(root) if isinstance(member, Principal)}
        return frozenset(named - {owner})

    def _one_by_one(self, only: frozenset[Principal] | None) -> Iterator[ReachedGrant]:
        """Run the kernel's search for each principal that a certificate names."""
        named = self.searched()
        if not named:
            return
        root = root_terminal(self._event_type.name.owner, self._constitutions)
        rules = Rules(
            admits=lambda signed: covers_type(signed, self._event_type),
            trusts=self._trusts,
            doubtful=self._bounded_names(),
        )
        for principal in sorted(named if only is None else named & only):
            search = flow_search(
                self._pool, root, principal, rules, DEFAULT_LIMITS, Budget(DEFAULT_LIMITS.steps_max)
            )
            found: list[Flow] = []
            try:
                found.extend(search.run())
            except SearchTooLarge:
                self.left_out += 1
            self.left_out += search.left_out
            for flow in needed(one for one in found if not one.validity.is_empty):
                chain = self._proved(certificates_of(flow), principal, flow.validity)
                authority = None if chain is None else self._one(chain.authority)
                grant = None if chain is None else self._granted(principal, authority, chain)
                if grant is not None:
                    yield grant

    # ------------------------------------------------------------ what the kernel says of a chain

    def _trusts(self, signed: SignedCertificate) -> bool:
        key = (signed.id, signed.signature)
        known = self._trusted.get(key)
        if known is None:
            try:
                self._cache.check(signed)
                known = True
            except BrokenCredential:
                known = False
            self._trusted[key] = known
        return known

    def _bounded_names(self) -> frozenset[bytes]:
        """Return the name certificates that end or must be tested: a name has a meaning by each of them."""
        return frozenset(
            one.id
            for one in self._pool
            if isinstance(one.certificate, NameCertificate) and one.certificate.validity != UNBOUNDED
        )

    def granted(self, holder: Principal, path: Path) -> ReachedGrant | None:
        """Return what a chain shows to its holder; None if the verifier refuses it, or it shows nothing."""
        chain = self._proved(path.certificates, holder, path.validity)
        return None if chain is None else self._granted(holder, path.authority, chain)

    def owner_grant(self) -> ReachedGrant | None:
        """Return what the owner of the type sees, if that is one principal."""
        owner = self._event_type.name.owner
        if not isinstance(owner, Principal):
            return None
        return self._granted(owner, None, owner_chain(owner, self._at))

    def _proved(
        self, certificates: tuple[SignedCertificate, ...], subject: Principal, period: Validity
    ) -> VerifiedChain | None:
        """Return the proof of a chain; None where the verifier, which alone decides, refuses it."""
        moment = _moment_in(period.intersection(self._event_type.validity), self._at)
        if moment is None:
            return None
        verify = partial(
            verify_chain,
            root=self._event_type.name.owner,
            subject=subject,
            at=moment,
            cache=self._cache,
            constitutions=self._constitutions,
        )
        try:
            return verify_needed(certificates, verify)
        except BrokenCredential:
            return None

    def _granted(
        self, principal: Principal, authority: Authority | None, chain: VerifiedChain
    ) -> ReachedGrant | None:
        period = chain.validity.intersection(self._event_type.validity)
        for one in chain.certificates if self._ends else ():
            if one.id in self._ends:
                period = period.intersection(Validity(None, self._ends[one.id]))
        moment = _moment_in(period, self._at)
        if moment is None:
            return None
        known = id(authority)
        if known not in self._sights:
            self._sights[known] = self._sight(principal, chain, moment)
        sight = self._sights[known]
        if sight is None:
            return None
        return ReachedGrant(principal, period, chain.may_delegate, sight, chain.certificates)

    def _sight(self, principal: Principal, chain: VerifiedChain, moment: Instant) -> Sight | None:
        """Ask the kernel what a chain shows: the answer is the same for chains of one authority."""
        event_type = self._event_type
        request = Request(principal, Action.SUBSCRIBE, event_type.name, event_type)
        evidence = Evidence((chain,)) if chain.certificates else Evidence()
        decision = decide(request, evidence, _SUPPOSED, moment)
        if not isinstance(decision, Permit):
            return None
        (window,) = decision.view.windows  # of one chain
        result = converts_to(window)
        shown = sorted(kinds_shown(window, event_type.kinds))
        names = {} if result is not None else self._names
        terms = [window.admits, *(step.restriction for step in window.transformations)]
        return Sight(
            tuple(ShownAttribute(uid, names.get(uid, uid), not keeps(window, uid)) for uid in shown),
            "; then ".join(format_predicate(one, self._names) for one in terms if one != ALWAYS),
            "" if chain.authority.condition == ALWAYS else format_predicate(chain.authority.condition),
            "; ".join(format_rule(one, self._names) for step in window.transformations for one in step.rules),
            "" if result is None else result.name,
        )


def _leaves_of(signed: SignedCertificate) -> Iterator[object]:
    subject = signed.certificate.subject
    if isinstance(subject, Threshold):
        yield from leaves(subject)
    else:
        yield subject


def _moment_in(period: Validity, at: Instant) -> Instant | None:
    """Return a moment of a period, `at` itself if it lies inside; None of an empty one."""
    if period.is_empty:
        return None
    if period.contains(at):
        return at
    return period.not_before if period.not_before is not None else period.not_after
