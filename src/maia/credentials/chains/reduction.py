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
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from maia.credentials.authority import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    AnyResource,
    Authority,
    composed,
    intersect,
    terms_of,
)
from maia.credentials.certificate import (
    UNBOUNDED,
    AuthorisationCertificate,
    NameCertificate,
    SignedCertificate,
    Validity,
)
from maia.credentials.encoding.parts import LINKED_NAMES_MAX
from maia.credentials.keys import LocalName, Owner, Principal, Subject, Threshold
from maia.errors import BrokenCredential
from maia.predicates.syntax import ALWAYS

# Errors of chains, with the certificate to blame.
#
# Verifier, reducer and search raise these. Each names the certificate by the first twelve digits of its id,
# and the field that failed, so that its issuer can find it. The sentences are for the owner of the
# certificates: a broker that answers a stranger decides for itself how much of them to pass on.


SHOWN_DIGITS: Final = 12


def shown_id(identifier: bytes) -> str:
    """Return an id as people quote it: its first twelve hexadecimal digits, in backticks."""
    return f"`{identifier.hex()[:SHOWN_DIGITS]}`"


class BrokenChain(BrokenCredential):
    """Some certificates do not add up to a chain; `certificate` and `field` say where."""

    code = "CREDENTIAL-CHAIN"

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        certificate: bytes | None = None,
        field: str | None = None,
    ) -> None:
        """Keep the id of the certificate to blame and its field, where there is one."""
        self.certificate = certificate
        self.field = field
        super().__init__(code, message)

    def as_record(self) -> dict[str, object]:
        """Return the error as named fields; the id in full."""
        record = super().as_record()
        if self.certificate is not None:
            record["certificate"] = self.certificate.hex()
        if self.field is not None:
            record["field"] = self.field
        return record


class CertificateExpired(BrokenChain):
    """A certificate was valid once, and is no more."""

    code = "CREDENTIAL-EXPIRED"

    def __init__(self, message: str, signed: SignedCertificate) -> None:
        """Keep the certificate: who relies on it has to ask its issuer for a new one."""
        self.signed = signed
        super().__init__(message, certificate=signed.id, field="validity")


class CertificateNotYetValid(BrokenChain):
    """A certificate will be valid, and is not yet."""

    code = "CREDENTIAL-NOT-YET-VALID"


class SuperfluousCertificate(BrokenChain):
    """A certificate plays no part in the chain it was given with."""

    code = "CREDENTIAL-SUPERFLUOUS"


class QuorumNotReached(BrokenChain):
    """Fewer members of a threshold agreed than it asks for."""

    code = "CREDENTIAL-QUORUM"


class UnknownQuorum(BrokenChain):
    """A chain is rooted at a quorum whose constitution was not shown."""

    code = "CREDENTIAL-QUORUM-UNKNOWN"


class SearchTooLarge(BrokenChain):
    """A search for a chain reached its limit before it found one."""

    code = "CREDENTIAL-SEARCH-LIMIT"


class NoChain(BrokenChain):
    """The certificates at hand hold no chain for the request."""

    code = "CREDENTIAL-NO-CHAIN"


# The work that one question may cause.
#
# Verifiers search on behalf of others, and strangers ask too. A budget counts what a search does: steps,
# weighed by the size of the terms that a step compares, and signature checks. It never counts time, so a
# verdict is the same on a busy machine (A80). All searches for one answer share one budget, and a signature
# that was found bad is not checked again for the same answer.


TERMS_PER_STEP: Final = 4
"""Comparing so many parts of restrictions, conditions or attribute lists costs about as much as a step."""
BYTES_PER_STEP: Final = 16
"""Reading so many bytes of a peer costs about as much as a step."""
STEPS_PER_CHECK: Final = 16
"""A signature check costs about as much as so many steps."""


@dataclass(slots=True)
class Budget:
    """What is left of the steps and signature checks for one answer, and how much of them was used."""

    steps: int
    checks: int = 0
    used: int = 0
    """Steps, a signature check counted as `STEPS_PER_CHECK` of them."""
    refused: set[tuple[bytes, bytes]] = field(default_factory=set, repr=False)
    """Certificates whose signature was found bad, by id and signature."""
    meter: Budget | None = field(default=None, repr=False)
    """Another budget that counts, in its `used`, what this one and others use."""

    @classmethod
    def of(cls, work: int, meter: Budget | None = None) -> Budget:
        """Return a budget of so many steps, and of as many signature checks as would cost the same."""
        return cls(work, work // STEPS_PER_CHECK, meter=meter)

    def spend(self, steps: int = 1, *, terms: int = 0) -> None:
        """Take some steps, which compare so many parts of terms, or stop the search."""
        price = steps + terms // TERMS_PER_STEP
        self._count(price)
        self.steps -= price
        if self.steps < 0:
            raise SearchTooLarge("the search for a chain reached its limit of steps; give fewer certificates")

    def spend_reading(self, size: int) -> None:
        """Take as many steps as it costs to read so many bytes, or stop."""
        self.spend(size // BYTES_PER_STEP)

    def spend_check(self) -> None:
        """Take one signature check, or stop the search."""
        self._count(STEPS_PER_CHECK)
        self.checks -= 1
        if self.checks < 0:
            raise SearchTooLarge(
                "the search for a chain reached its limit of signature checks; give fewer certificates"
            )

    @contextmanager
    def all_but(self, share: int) -> Iterator[Budget]:
        """Lend all but a half, a third … to a search that may use it up; what it leaves comes back."""
        kept = self.steps // share, self.checks // share
        part = Budget(self.steps - kept[0], self.checks - kept[1], refused=self.refused, meter=self.meter)
        self.steps, self.checks = self.steps - part.steps, self.checks - part.checks
        try:
            yield part
        finally:
            self.steps, self.checks = self.steps + max(0, part.steps), self.checks + max(0, part.checks)
            self.used += part.used

    def _count(self, price: int) -> None:
        self.used += price
        if self.meter is not None:
            self.meter.used += price


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
        raise BrokenChain("CREDENTIAL-CHAIN-GAP", "a chain needs at least one certificate")
    rest = iter(links)
    first = next(rest)
    subject, may_delegate = first.subject, first.may_delegate
    authority, validity = first.authority, first.validity
    for link in rest:
        issuer = link.issuer
        if not may_delegate or (issuer is not subject and issuer != subject):
            raise _broken_link(links, ids)
        granted = link.authority
        if granted is not authority:
            # As `composed`: most links transform and restrict nothing, and a call is a part of the whole.
            is_plain = not (authority.transformations or granted.transformations) and (
                granted.restriction is ALWAYS or authority.attributes is ALL_ATTRIBUTES
            )
            common = intersect(authority, granted) if is_plain else composed(authority, granted)
            if common is None:
                raise _nothing_in_common(links, ids)
            authority = common
        if link.validity is not validity:
            before, validity = validity, validity.intersection(link.validity)
            # What was narrowed before was looked at then.
            if (validity is not before or before is first.validity) and validity.is_empty:
                raise _never_valid(links, ids)
        subject, may_delegate = link.subject, link.may_delegate
    # The constructor of a named tuple is Python code; this is the same without it.
    return _new_tuple(FiveTuple, (first.issuer, subject, may_delegate, authority, validity))


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
        raise BrokenChain(
            "CREDENTIAL-NOT-OWNER",
            f"certificate {shown_id(identifier)} names resources that do not belong to `{owner}`",
            certificate=identifier,
            field="authority",
        )
    return owned


# ---------------------------------------------------------------- is one wider than the other?


def includes(*, wide: Authority, narrow: Authority) -> bool:
    """Return whether `wide` surely grants all that `narrow` grants; a cautious no is possible."""
    if wide is narrow:
        return True
    shown, asked = wide.attributes, narrow.attributes
    if shown is not ALL_ATTRIBUTES and (asked is ALL_ATTRIBUTES or not asked <= shown):
        return False
    if wide.transformations != narrow.transformations or not narrow.actions <= wide.actions:
        return False
    if wide.bounds and not set(wide.bounds) <= set(narrow.bounds):
        return False
    for terms, more in ((wide.restriction, narrow.restriction), (wide.condition, narrow.condition)):
        if terms is not ALWAYS and terms is not more and not set(terms_of(more)).issuperset(terms_of(terms)):
            return False
    if wide.resources is narrow.resources or wide.resources == narrow.resources:
        return True
    common = intersect(
        replace(wide, restriction=ALWAYS, bounds=()), replace(narrow, restriction=ALWAYS, bounds=())
    )
    return common is not None and common.resources == narrow.resources


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
    return BrokenChain(
        "CREDENTIAL-CHAIN-GAP",
        f"{name} was issued by `{links[place].issuer}`, who is not the subject of the one before it",
        certificate=identifier,
        field="issuer",
    )


def _not_delegable(links: Sequence[Reducible], ids: Sequence[bytes], place: int) -> BrokenChain:
    name, identifier = _called(ids, place - 1)
    return BrokenChain(
        "CREDENTIAL-NOT-DELEGABLE",
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
    return BrokenChain(
        "CREDENTIAL-NO-AUTHORITY",
        f"{name} grants nothing that the chain before it grants",
        certificate=identifier,
        field="authority",
    )


def _never_valid(links: Sequence[Reducible], ids: Sequence[bytes]) -> BrokenChain:
    common = links[0].validity
    place = 0
    while not common.is_empty:
        place += 1
        common = common.intersection(links[place].validity)
    name, identifier = _called(ids, place)
    return BrokenChain(
        "CREDENTIAL-VALIDITY-DISJOINT",
        f"{name} is valid at no moment at which the chain before it is",
        certificate=identifier,
        field="validity",
    )


# The principals that a local name means.


Terminal: TypeAlias = Principal | Threshold
"""What is left when no name is."""

_Place: TypeAlias = tuple[LocalName, frozenset[bytes]]
"""A name on the way to a meaning, and the doubtful certificates that were passed to get there."""


class Meaning(NamedTuple):
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
