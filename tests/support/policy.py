"""The papers' people, networks and types, and short ways to grant, verify and ask.

Keys come from fixed seeds. `granted` issues a certificate, `chain` verifies
some of them, `ask` decides. Attributes may be named as in the papers' tables:
their uids are looked up in the type.
"""

from __future__ import annotations

from collections.abc import Iterable

from maia.credentials.authority import (
    ALL_ATTRIBUTES,
    Action,
    AttributeSet,
    NetworkPattern,
    ResourcePattern,
    TopicPattern,
    TypePattern,
    actions_from_words,
)
from maia.credentials.certificate import (
    UNBOUNDED,
    NameCertificate,
    SignedCertificate,
    Validity,
)
from maia.credentials.chains.chain import VerifiedChain, verify_chain
from maia.credentials.encoding.certificates import issue
from maia.credentials.keys import LocalName, Owner, Principal, SigningKey, Subject
from maia.credentials.names import FIRST_VERSION, NetworkName, ResourceName, TypeName, parse_name_pattern
from maia.events import Attribute, AttributeUid, Instant, Kind, PresentValue, Vocabulary
from maia.policy import NO_FACTS, BoundRule, Decision, Denial, Evidence, Facts, Permit, Request, decide
from maia.predicates.language.parser import parse_predicate
from maia.predicates.syntax import ALWAYS, Predicate
from maia.testing import grant
from maia.types import TypeDefinition, VerifiedType, sign_definition, verify_definition

NOON = Instant.parse("2026-11-15T12:00:00Z")
ONE_SECOND = 1_000_000


def later(seconds: int, start: Instant = NOON) -> Instant:
    """Return the moment some seconds after noon; before it, if negative."""
    return Instant(start + seconds * ONE_SECOND)


def key(number: int) -> SigningKey:
    """Return the signing key of test person `number`."""
    return SigningKey.from_seed(bytes([100 + number]) * 32)


PITO, CCS, MET, BILLING, STATISTICS, CCTV, SMITH, MET_BROKER, MANAGER, MALLORY = (
    key(number) for number in range(10)
)

POLICE_NETWORK = NetworkName(PITO.principal, "UK Police Network")

PLATE = AttributeUid("3265")
TIME = AttributeUid("9058")
PLACE = AttributeUid("3467")

NUMBERPLATE_ATTRIBUTES = (
    Attribute("numberplate", PLATE, Kind.STRING),
    Attribute("timestamp", TIME, Kind.TIMESTAMP),
    Attribute("location", PLACE, Kind.STRING),
)


def defined(owner: SigningKey, name: str, attributes: Iterable[Attribute]) -> VerifiedType:
    """Return a verified first version of a type, signed by its owner."""
    type_name = TypeName(owner.principal, name, FIRST_VERSION)
    definition = TypeDefinition(type_name, None, tuple(attributes))
    return verify_definition(sign_definition(definition, owner), at=NOON)


NUMBERPLATE = defined(PITO, "uk.gov.pito.Numberplate", NUMBERPLATE_ATTRIBUTES)


def type_pattern(owner: Owner | None = PITO.principal, name: str = "uk.gov.pito.Numberplate") -> TypePattern:
    """Return the pattern of every version of the types called `name`."""
    return TypePattern(owner, parse_name_pattern(name), None)


def network_pattern(name: str = "UK Police Network", owner: Owner | None = PITO.principal) -> NetworkPattern:
    """Return the pattern of networks called `name`."""
    return NetworkPattern(owner, parse_name_pattern(name))


def topic_pattern(path: str, owner: Owner | None = PITO.principal) -> TopicPattern:
    """Return the pattern of topics under `path`."""
    return TopicPattern(owner, parse_name_pattern(path))


def granted(
    issuer: SigningKey,
    subject: SigningKey | Subject,
    actions: str,
    resources: ResourcePattern | None = None,
    *,
    attributes: str | Iterable[AttributeUid] = "*",
    restriction: str | Predicate = ALWAYS,
    condition: str | Predicate = ALWAYS,
    may_delegate: bool = False,
    validity: Validity = UNBOUNDED,
    vocabulary: Vocabulary = NUMBERPLATE.vocabulary,
) -> SignedCertificate:
    """Issue one capability; actions and attributes are words, as in the papers' tables."""
    whom = subject.principal if isinstance(subject, SigningKey) else subject
    return grant(
        issuer,
        whom,
        type_pattern() if resources is None else resources,
        *actions_from_words(actions.split()),
        attributes=_attributes(attributes, vocabulary),
        restriction=_predicate(restriction, vocabulary),
        condition=_predicate(condition, None),
        may_delegate=may_delegate,
        validity=validity,
    )


def named(
    issuer: SigningKey, name: str, member: SigningKey, validity: Validity = UNBOUNDED
) -> SignedCertificate:
    """Let `issuer` put `member` into the group `name`."""
    return issue(NameCertificate(issuer.principal, name, member.principal, validity), issuer)


def group(space: SigningKey, name: str) -> LocalName:
    """Return the group that `space` calls `name`."""
    return LocalName(space.principal, (name,))


def chain(
    *certificates: SignedCertificate,
    subject: SigningKey,
    root: SigningKey | Owner = PITO,
    at: Instant = NOON,
) -> VerifiedChain:
    """Verify certificates, the owner's first, as a chain from `root` to `subject`."""
    owner = root.principal if isinstance(root, SigningKey) else root
    return verify_chain(certificates, root=owner, subject=subject.principal, at=at)


def ask(
    who: SigningKey | Principal,
    action: str,
    what: ResourceName | VerifiedType = NUMBERPLATE,
    *,
    chains: Iterable[VerifiedChain] = (),
    bounds: Iterable[BoundRule] = (),
    filter: str | Predicate = ALWAYS,  # noqa: A002 - the word of the papers
    facts: Facts = NO_FACTS,
    now: Instant = NOON,
) -> Decision:
    """Decide one request."""
    return decide(
        request(who, action, what, filter=filter), Evidence(tuple(chains), tuple(bounds)), facts, now
    )


def request(
    who: SigningKey | Principal,
    action: str,
    what: ResourceName | VerifiedType = NUMBERPLATE,
    *,
    filter: str | Predicate = ALWAYS,  # noqa: A002 - the word of the papers
) -> Request:
    """Return the request of `who`; a filter in words speaks the type's own names."""
    principal = who.principal if isinstance(who, SigningKey) else who
    if isinstance(what, VerifiedType):
        wanted = _predicate(filter, what.vocabulary)
        return Request(principal, Action(action), what.name, what, wanted)
    return Request(principal, Action(action), what, None, _predicate(filter, None))


def permit(decision: Decision) -> Permit:
    """Return a permit; a denial fails the test with all that the owner may know."""
    assert isinstance(decision, Permit), f"{decision.code}: {decision.explanation.owner}"
    return decision


def denial(decision: Decision) -> Denial:
    """Return a denial; a permit fails the test."""
    assert isinstance(decision, Denial), "the request was permitted"
    return decision


def sighting(
    plate: str | None, place: str | None, time: Instant | None = NOON
) -> dict[AttributeUid, PresentValue]:
    """Return a numberplate event; what is None is missing."""
    values: dict[AttributeUid, PresentValue | None] = {PLATE: plate, PLACE: place, TIME: time}
    return {uid: value for uid, value in values.items() if value is not None}


def _attributes(wanted: str | Iterable[AttributeUid], vocabulary: Vocabulary) -> AttributeSet:
    if wanted == "*":
        return ALL_ATTRIBUTES
    if isinstance(wanted, str):
        return frozenset(vocabulary[name].uid for name in wanted.split())
    return frozenset(wanted)


def _predicate(wanted: str | Predicate, vocabulary: Vocabulary | None) -> Predicate:
    return parse_predicate(wanted, vocabulary) if isinstance(wanted, str) else wanted
