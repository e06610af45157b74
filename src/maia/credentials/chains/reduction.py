"""What does a chain of certificates amount to?

The 5-tuple reduction of SPKI (dissertation, section 2.6.1): two adjacent
certificates become one, whose authority and validity are the intersections.
Verifier and search ask; neither signature nor clock is checked here. The
result never grants more than any of its parts, so a wider certificate further
down a chain is harmless.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from maia.credentials.authority import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    AnyResource,
    Authority,
    composed,
    intersect,
)
from maia.credentials.certificate import AuthorisationCertificate, NameCertificate, SignedCertificate
from maia.credentials.chains.errors import (
    BrokenChain,
    Budget,
    ChainGap,
    NotDelegable,
    NothingInCommon,
    NotOwnedByRoot,
    ValiditiesDisjoint,
    shown_id,
)
from maia.credentials.encoding.authority import LINKED_NAMES_MAX
from maia.credentials.keys import LocalName, Owner, Principal, Subject, Threshold
from maia.credentials.validity.period import UNBOUNDED, Validity, new_validity
from maia.predicates.syntax import ALWAYS, AllOf, Predicate


class FiveTuple(NamedTuple):
    """`issuer` grants `authority` to `subject`, who may pass it on if `may_delegate`.

    A tuple and no dataclass: one is built per reduction, and a frozen dataclass
    takes as long to build as the rest of a reduction takes.
    """

    issuer: Owner
    subject: Subject
    may_delegate: bool
    authority: Authority
    validity: Validity


_new_tuple = tuple.__new__

Reducible: TypeAlias = FiveTuple | AuthorisationCertificate
"""Anything with the five fields; the signed text of a certificate is one such thing."""


def reduced(first: Reducible, second: Reducible) -> FiveTuple:
    """Return the one 5-tuple that two adjacent ones amount to, or say why there is none."""
    return reduce_chain((first, second))


def reduce_chain(links: Sequence[Reducible], ids: Sequence[bytes] = ()) -> FiveTuple:
    """Return the 5-tuple that a chain amounts to; `ids` name its certificates in refusals.

    This is the hot path of verification. It asks of each field whether it is
    the very object of the link before, as it mostly is: reading certificates
    gives equal parts one identity. Only what differs is compared or intersected.
    """
    if not links:
        raise ChainGap("a chain needs at least one certificate")
    rest = iter(links)
    first = next(rest)
    subject, may_delegate = first.subject, first.may_delegate
    authority, validity = first.authority, first.validity
    for link in rest:
        issuer = link.issuer
        if not may_delegate or (issuer is not subject and issuer != subject):
            raise _broken_link(links, ids)
        if link.authority is not authority:
            common = composed(authority, link.authority)
            if common is None:
                raise _nothing_in_common(links, ids)
            authority = common
        if link.validity is not validity:
            validity = _both_periods(validity, link.validity)
            if validity.is_empty:
                raise _never_valid(links, ids)
        subject, may_delegate = link.subject, link.may_delegate
    # The constructor of a named tuple is Python code; this is the same without it.
    return _new_tuple(FiveTuple, (first.issuer, subject, may_delegate, authority, validity))


def _both_periods(one: Validity, other: Validity) -> Validity:
    """Return the intersection; one of the two themselves where it lies inside the other."""
    if one.tests is not other.tests:
        return one.intersection(other)
    start, end = one.not_before, one.not_after
    later, earlier = other.not_before, other.not_after
    starts_with_one = later is None or (start is not None and later <= start)
    ends_with_one = earlier is None or (end is not None and end <= earlier)
    if starts_with_one and ends_with_one:
        return one
    return new_validity(start if starts_with_one else later, end if ends_with_one else earlier, one.tests)


# ---------------------------------------------------------------- what an owner can grant


def full_authority(owner: Owner) -> Authority:
    """Return everything that `owner` may do with its own resources, and with no others."""
    return Authority(AnyResource(owner), ALL_ACTIONS, ALL_ATTRIBUTES, ALWAYS, ALWAYS)


def owned_part(authority: Authority, owner: Owner) -> Authority | None:
    """Return the part of `authority` about resources of `owner`; None if there is none.

    A chain conveys rights on the resources of its root alone. Without this
    step `type: *`, written by one type owner, would open every other owner's types.
    """
    resources = authority.resources
    named = resources.owner
    if named is None:
        return replace(authority, resources=replace(resources, owner=owner))
    return authority if named == owner else None


def checked_owned_part(authority: Authority, owner: Owner, identifier: bytes) -> Authority:
    """Return the part of `authority` that `owner` could grant, or blame the certificate."""
    owned = owned_part(authority, owner)
    if owned is None:
        raise NotOwnedByRoot(
            f"certificate {shown_id(identifier)} names resources that do not belong to `{owner}`",
            certificate=identifier,
            field="authority",
        )
    return owned


# ---------------------------------------------------------------- is one wider than the other?


def includes(*, wide: Authority, narrow: Authority) -> bool:
    """Say whether `wide` surely grants all that `narrow` grants; a cautious no is possible."""
    if wide is narrow or wide == narrow:
        return True
    if wide.transformations != narrow.transformations:
        return False
    if not _terms_include(wide=wide.restriction, narrow=narrow.restriction):
        return False
    if not _terms_include(wide=wide.condition, narrow=narrow.condition):
        return False
    if not narrow.actions <= wide.actions or not _attributes_include(wide=wide, narrow=narrow):
        return False
    common = intersect(replace(wide, restriction=ALWAYS), replace(narrow, restriction=ALWAYS))
    return common is not None and common.resources == narrow.resources


def _attributes_include(*, wide: Authority, narrow: Authority) -> bool:
    if wide.attributes is ALL_ATTRIBUTES:
        return True
    return narrow.attributes is not ALL_ATTRIBUTES and narrow.attributes <= wide.attributes


def _terms_include(*, wide: Predicate, narrow: Predicate) -> bool:
    return wide == narrow or set(terms_of(wide)) <= set(terms_of(narrow))


def terms_of(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return what must all hold for `predicate` to hold."""
    return predicate.parts if isinstance(predicate, AllOf) else (predicate,)


# ---------------------------------------------------------------- why a reduction fails


def _called(ids: Sequence[bytes], place: int) -> tuple[str, bytes | None]:
    if place < len(ids):
        return f"certificate {shown_id(ids[place])}", ids[place]
    return f"certificate {place + 1} of the chain", None


def _broken_link(links: Sequence[Reducible], ids: Sequence[bytes]) -> BrokenChain:
    """Look again, with places, for the first link that does not follow from the one before."""
    for place in range(1, len(links)):
        if links[place].issuer != links[place - 1].subject:
            return _gap(links, ids, place)
        if not links[place - 1].may_delegate:
            return _not_delegable(links, ids, place)
    raise AssertionError("a chain without a broken link was refused for one")


def _gap(links: Sequence[Reducible], ids: Sequence[bytes], place: int) -> BrokenChain:
    name, identifier = _called(ids, place)
    return ChainGap(
        f"{name} was issued by `{links[place].issuer}`, who is not the subject of the one before it",
        certificate=identifier,
        field="issuer",
    )


def _not_delegable(links: Sequence[Reducible], ids: Sequence[bytes], place: int) -> BrokenChain:
    name, identifier = _called(ids, place - 1)
    return NotDelegable(
        f"{name} does not let its subject `{links[place].issuer}` pass the authority on",
        certificate=identifier,
        field="delegation",
    )


def _nothing_in_common(links: Sequence[Reducible], ids: Sequence[bytes]) -> BrokenChain:
    common: Authority | None = links[0].authority
    place = 0
    while common is not None:
        place += 1
        common = composed(common, links[place].authority)
    name, identifier = _called(ids, place)
    return NothingInCommon(
        f"{name} grants nothing that the chain before it grants", certificate=identifier, field="authority"
    )


def _never_valid(links: Sequence[Reducible], ids: Sequence[bytes]) -> BrokenChain:
    common = links[0].validity
    place = 0
    while not common.is_empty:
        place += 1
        common = common.intersection(links[place].validity)
    name, identifier = _called(ids, place)
    return ValiditiesDisjoint(
        f"{name} is valid at no moment at which the chain before it is",
        certificate=identifier,
        field="validity",
    )


# Whom does a local name mean?


Terminal: TypeAlias = Principal | Threshold
"""What is left when no name is."""

_Place: TypeAlias = tuple[LocalName, frozenset[bytes]]
"""A name on the way to a meaning, and the doubtful certificates that were passed to get there."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """One thing that a name means, and the name certificates that say so, first step first."""

    subject: Terminal
    through: tuple[SignedCertificate, ...]

    @property
    def validity(self) -> Validity:
        """Return when the name means this."""
        period = UNBOUNDED
        for signed in self.through:
            period = period.intersection(signed.certificate.validity)
        return period


def rewritten(name: LocalName, definition: NameCertificate) -> Subject | None:
    """Return `name` after one 4-tuple reduction step; None where the definition does not apply.

    `(K, a) -> S` turns `K a b c` into `S b c`. A threshold has no namespace,
    so it may only be where no word is left.
    """
    if not name.names or definition.issuer != name.space or definition.name != name.names[0]:
        return None
    rest = name.names[1:]
    match definition.subject:
        case Threshold() as threshold:
            return None if rest else threshold
        case Principal() as principal:
            return LocalName(principal, rest) if rest else principal
        case LocalName(space, names):
            longer = names + rest
            return LocalName(space, longer) if names and len(longer) <= LINKED_NAMES_MAX else None


@dataclass(slots=True)
class NameBook:
    """Name certificates by the name they define; remembers what it has looked up.

    `accepts` is asked of each certificate before it is used, and not earlier:
    a forged definition must not come before a genuine one, and the many that
    no walk meets should cost no signature check.
    """

    definitions: dict[tuple[bytes, str], list[SignedCertificate]]
    accepts: Callable[[SignedCertificate], bool]
    doubtful: frozenset[bytes] = frozenset()
    """The ids of certificates that may turn out not to serve: ways that differ in these are all found."""
    _known: dict[LocalName, tuple[Meaning, ...]] = field(default_factory=dict)

    def meanings(self, subject: Subject, budget: Budget) -> tuple[Meaning, ...]:
        """Return everything that `subject` means, the nearest first; itself if it is no name."""
        if not isinstance(subject, LocalName):
            return (Meaning(subject, ()),)
        known = self._known.get(subject)
        if known is None:
            known = self._known[subject] = tuple(self._walk(subject, budget))
        return known

    def _walk(self, name: LocalName, budget: Budget) -> list[Meaning]:
        """Walk breadth first, so that each meaning is found by its shortest derivation."""
        found: dict[tuple[Terminal, frozenset[bytes]], Meaning] = {}
        start: _Place = (name, frozenset())
        # How each name was reached: the place before it, and the certificate between the two.
        reached: dict[_Place, tuple[_Place, SignedCertificate] | None] = {start: None}
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            for signed in self._defining(here[0]):
                budget.spend()
                definition = signed.certificate
                after = rewritten(here[0], definition) if isinstance(definition, NameCertificate) else None
                passed = here[1] | {signed.id} if signed.id in self.doubtful else here[1]
                if isinstance(after, LocalName):
                    if (after, passed) not in reached:
                        reached[after, passed] = (here, signed)
                        waiting.append((after, passed))
                elif after is not None and (after, passed) not in found:
                    found[after, passed] = Meaning(after, (*_way_to(here, reached), signed))
        return list(found.values())

    def _defining(self, name: LocalName) -> Iterator[SignedCertificate]:
        filed = self.definitions.get((name.space.key, name.names[0]), ()) if name.names else ()
        return filter(self.accepts, filed)


def name_book(
    certificates: Iterable[SignedCertificate],
    accepts: Callable[[SignedCertificate], bool],
    doubtful: frozenset[bytes] = frozenset(),
) -> NameBook:
    """File name certificates by the name they define; others are left out.

    Of two that say the same, the one that lasts longer comes first: an old
    certificate must not shorten what its renewal grants.
    """
    definitions: dict[tuple[bytes, str], list[SignedCertificate]] = {}
    for signed in certificates:
        definition = signed.certificate
        if isinstance(definition, NameCertificate):
            definitions.setdefault((definition.issuer.key, definition.name), []).append(signed)
    for filed in definitions.values():
        filed.sort(key=_longest_first)
    return NameBook(definitions, accepts, doubtful)


def _longest_first(signed: SignedCertificate) -> tuple[bool, int, bytes, bytes]:
    until = signed.certificate.validity.not_after
    return (until is not None, -(until or 0), signed.id, signed.signature)


def _way_to(
    place: _Place, reached: dict[_Place, tuple[_Place, SignedCertificate] | None]
) -> tuple[SignedCertificate, ...]:
    way: list[SignedCertificate] = []
    before = reached[place]
    while before is not None:
        place, signed = before
        way.append(signed)
        before = reached[place]
    return tuple(reversed(way))
