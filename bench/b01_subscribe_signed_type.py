"""What does a signed event type add to a subscription, once everything is warm?

Table 4.8 of the dissertation: processing a subscription request at the local
broker, with the type cache on. Both sides look up the type, check the filter
against it, ask for a decision and find the rendezvous. The plain side believes
any definition it has stored; ours returns a proof that still holds now.
"""

from collections.abc import Callable, Iterator
from typing import Protocol
from uuid import UUID

from harness import Benchmark, Case, Race, Ratio, Side, at_most
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.validity import ValidityTracker
from maia.broker.settings import BrokerSettings
from maia.credentials.authority import MANAGE_ACTIONS, Action, Authority, NetworkPattern, TypePattern
from maia.credentials.certificate import UNBOUNDED, AuthorisationCertificate, SignedCertificate, Validity
from maia.credentials.chains.chain import VerificationCache
from maia.credentials.encoding.certificates import certificate_to_bytes, issue
from maia.credentials.keys import SigningKey
from maia.credentials.names import NetworkName, TypeName, exact_name
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.policy import Request
from maia.predicates.syntax import AllOf, Comparison, Operator
from maia.types import (
    SignedDefinition,
    TypeDefinition,
    VerifiedType,
    VerifiedTypeCache,
    check_predicate,
    sign_definition,
    verify_definition,
)

NOW = Instant.parse("2026-11-15T12:00:00Z")
OWNER = SigningKey.from_seed(b"\x01" * 32)
SUBSCRIBER = SigningKey.from_seed(b"\x02" * 32)
NETWORK = NetworkName(OWNER.principal, "UK Police Network")
NAME = exact_name("uk.gov.pito.Numberplate")
TYPES = TypePattern(OWNER.principal, NAME, None)
YEAR = Validity(Instant.parse("2026-01-01T00:00:00Z"), Instant.parse("2027-01-01T00:00:00Z"))

ATTRIBUTES = (
    Attribute("numberplate", AttributeUid("3265"), Kind.STRING),
    Attribute("timestamp", AttributeUid("9058"), Kind.TIMESTAMP),
    Attribute("location", AttributeUid("3467"), Kind.STRING),
)
FILTER = AllOf(
    (
        Comparison(AttributeUid("3265"), Operator.EQ, "AE05 XYZ"),
        Comparison(AttributeUid("9058"), Operator.GE, NOW),
    )
)


class Types(Protocol):
    """Where a broker looks for a type that a client presents."""

    def find(self, signed: SignedDefinition, at: Instant, network: NetworkName) -> VerifiedType | None: ...


class PlainTypes:
    """The types of a system without signatures: what is stored is believed."""

    def __init__(self, stored: VerifiedType) -> None:
        self._stored = {stored.id: stored}

    def find(self, signed: SignedDefinition, _at: Instant, _network: NetworkName) -> VerifiedType | None:
        """Return the type stored under this digest."""
        return self._stored.get(signed.id)


def subscribe(
    signed: SignedDefinition, types: Types, edge: Authoriser, pool: tuple[SignedCertificate, ...]
) -> bytes:
    """Process one subscription request, and return where to route it."""
    event_type = types.find(signed, NOW, NETWORK)
    if event_type is None:
        event_type = verify_definition(signed, at=NOW, network=NETWORK)
    check_predicate(FILTER, event_type)
    request = Request(SUBSCRIBER.principal, Action.SUBSCRIBE, event_type.name, event_type, FILTER)
    edge.decide(request, pool, NOW)  # raises unless it is permitted
    return event_type.type_id


def definition(links: int) -> SignedDefinition:
    """Return a definition whose signer stands `links` certificates away from the owner."""
    chain: list[SignedCertificate] = []
    holder = OWNER
    for number in range(links):
        manager = SigningKey.from_seed(bytes([100 + number]) * 32)
        authority = Authority(TYPES, MANAGE_ACTIONS)
        chain.append(_issued(holder, manager, authority, may_delegate=True))
        holder = manager
    install = Authority(
        NetworkPattern(OWNER.principal, exact_name(NETWORK.name)), frozenset({Action.INSTALL})
    )
    chain.append(_issued(OWNER, holder, install, may_delegate=False))
    name = TypeName(OWNER.principal, str(NAME), str(UUID(int=links)))
    return sign_definition(TypeDefinition(name, "0", ATTRIBUTES, tuple(chain)), holder)


def _issued(
    issuer: SigningKey, subject: SigningKey, authority: Authority, *, may_delegate: bool
) -> SignedCertificate:
    certificate = AuthorisationCertificate(
        issuer.principal, subject.principal, may_delegate, authority, YEAR, ""
    )
    return issue(certificate, issuer)


def right_to_subscribe() -> bytes:
    """Return what lets the subscriber subscribe."""
    authority = Authority(TYPES, frozenset({Action.SUBSCRIBE}))
    certificate = AuthorisationCertificate(OWNER.principal, SUBSCRIBER.principal, False, authority, UNBOUNDED)
    return certificate_to_bytes(issue(certificate, OWNER))


def processing(signed: SignedDefinition, types: Types) -> Callable[[], bytes]:
    """Return the work of one request, at a broker that has met the subscriber before."""
    settings = BrokerSettings(NETWORK, "127.0.0.1:7400", ())
    edge = Authoriser(settings, VerificationCache(), ValidityTracker({}, issuers_max=1))
    pool = edge.pool([right_to_subscribe()])
    return lambda: subscribe(signed, types, edge, pool)


def cases(quick: bool) -> Iterator[Case]:
    """Race a signed type against a plain one, for chains of one to ten certificates."""
    for links in (1,) if quick else range(1, 11):
        signed = definition(links)
        cache = VerifiedTypeCache()
        verified = verify_definition(signed, at=NOW, network=NETWORK, cache=cache)
        ours = processing(signed, cache)
        peer = processing(signed, PlainTypes(verified))
        assert cache.find(signed, NOW, NETWORK) is verified
        assert ours() == peer() == verified.type_id
        yield Race(
            f"chain of {links}",
            ours=Side(run=ours),
            peer=Side(run=peer),
            ratio=Ratio.OURS_OVER_PEER,
            target=at_most(1.01),
        )


BENCH = Benchmark(
    number=1,
    name="subscribe-signed-type",
    about="subscribe with a signed type, chains of 1 to 10 certificates, warm caches",
    cases=cases,
    stood="1.049 (table 4.8)",
    peer_lacks="the plain side checks neither signature, chain, network nor validity of the definition",
)
