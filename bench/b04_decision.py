"""What does one decision cost, against the engines people use today?

Everything is warm, and every side finds its question parsed. Three moments of a
broker are timed. For a frame on an accepted advertisement or subscription the
broker checks that the right was decided for this moment and from today's
certificates. A further request is one of a client that has a right to the type by now,
with another filter: the broker checks the filter, and what was decided holds for it
as well. For a client's first request of a type the kernel decides, from chains
that were found before; it returns a View whose explanation is written when it is read.

Each peer answers the same question: may the billing office subscribe to
Numberplate sightings of its city? Cedar gets its policies, entities and schema
parsed beforehand. PyJWT verifies an EdDSA token, as it does for every request,
and plain Python looks at the claims. Biscuit gets a parsed token, verified
once, and a parsed request, and authorises it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle

import biscuit_auth
import cedarpy
import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness import Benchmark, Case, Race, Ratio, Side, at_least
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.validity import ValidityTracker
from maia.broker.settings import BrokerSettings
from maia.credentials.authority import Action, Authority, TypePattern
from maia.credentials.certificate import AuthorisationCertificate, SignedCertificate, Validity
from maia.credentials.chains.chain import VerificationCache
from maia.credentials.encoding.certificates import certificate_to_bytes, issue
from maia.credentials.keys import SigningKey
from maia.credentials.names import FIRST_VERSION, NetworkName, TypeName, exact_name
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.policy import NO_FACTS, Request, decide, gather_evidence
from maia.predicates.syntax import Comparison, Operator
from maia.types import TypeDefinition, VerifiedType, sign_definition, verify_definition

NOW = Instant.from_datetime(datetime.now(UTC))
OWNER, DOMAIN, OFFICE = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
TYPE_NAME = "uk.gov.pito.Numberplate"
PLATE, PLACE = AttributeUid("3265"), AttributeUid("3467")
A_DAY = 86_400 * 1_000_000
CITIES = 100
SETTINGS = BrokerSettings(NetworkName(OWNER.principal, "UK Police Network"), "127.0.0.1:7400", ())


def cases(quick: bool) -> Iterator[Case]:
    """Yield the check of a standing right, a further request and a first one against each peer's decision."""
    edge = Authoriser(SETTINGS, VerificationCache(), ValidityTracker({}, issuers_max=1))
    pool = edge.pool(map(certificate_to_bytes, certificates_of_office()))
    asked = requests(numberplate(), 10 if quick else CITIES)
    rights = [edge.decide(one, pool, NOW) for one in asked]
    standing, new = cycle(rights), cycle(asked)
    frame = Side(run=lambda: edge.holds(next(standing), NOW))
    request = Side(run=lambda: edge.decide(next(new), pool, NOW))
    evidence = gather_evidence(asked[0], pool, at=NOW)
    first = Side(run=lambda: decide(next(new), evidence, NO_FACTS, NOW))
    assert frame.run() is True
    for name, peer, target in (
        ("cedarpy", cedar(), 100),
        ("PyJWT and rules", pyjwt(), 100),
        ("biscuit authorise", biscuit(), 15),
    ):
        assert peer() is True
        their = Side(run=peer)
        yield Race(
            f"a frame on a standing right, against {name}",
            frame,
            their,
            Ratio.PEER_OVER_OURS,
            at_least(target),
        )
        for case, ours in (
            ("a further request of one client", request),
            ("the kernel's decision of a first request", first),
        ):
            yield Race(f"{case}, against {name}", ours, their, Ratio.PEER_OVER_OURS, at_least(target))


# ---------------------------------------------------------------- ours


def numberplate() -> VerifiedType:
    """Return the event type, verified."""
    attributes = (Attribute("numberplate", PLATE, Kind.STRING), Attribute("location", PLACE, Kind.STRING))
    definition = TypeDefinition(TypeName(OWNER.principal, TYPE_NAME, FIRST_VERSION), None, attributes)
    return verify_definition(sign_definition(definition, OWNER), at=NOW)


def certificates_of_office() -> list[SignedCertificate]:
    """Return the two-link chain from the owner to the office, with a restriction and an end."""
    second = NOW - NOW % 1_000_000
    validity = Validity(Instant(second - A_DAY), Instant(second + A_DAY))
    pattern = TypePattern(OWNER.principal, exact_name(TYPE_NAME), None)
    actions = frozenset({Action.PUBLISH, Action.SUBSCRIBE})
    wide = Authority(pattern, actions)
    narrow = Authority(
        pattern,
        frozenset({Action.SUBSCRIBE}),
        frozenset({PLATE, PLACE}),
        Comparison(PLACE, Operator.NE, "Depot"),
    )
    links = (
        (OWNER, AuthorisationCertificate(OWNER.principal, DOMAIN.principal, True, wide, validity)),
        (DOMAIN, AuthorisationCertificate(DOMAIN.principal, OFFICE.principal, False, narrow, validity)),
    )
    return [issue(certificate, key) for key, certificate in links]


def requests(event_type: VerifiedType, cities: int) -> list[Request]:
    """Return as many different questions as there are cities, as new objects."""
    filters = [Comparison(PLACE, Operator.EQ, f"city {number}") for number in range(cities)]
    return [
        Request(OFFICE.principal, Action.SUBSCRIBE, event_type.name, event_type, wanted) for wanted in filters
    ]


# ---------------------------------------------------------------- peers

CEDAR_POLICY = """
permit(principal == Office::"billing", action == Action::"subscribe", resource == Type::"Numberplate")
when { context.now < 9999999999 && context.place != "Depot" };
"""
CEDAR_ENTITIES = """[
  {"uid": {"type": "Office", "id": "billing"}, "attrs": {}, "parents": []},
  {"uid": {"type": "Type", "id": "Numberplate"}, "attrs": {}, "parents": []}
]"""


def cedar() -> Callable[[], bool]:
    """Return Cedar's decision, with policies and entities parsed beforehand."""
    policies = cedarpy.PolicySet.from_str(CEDAR_POLICY)
    entities = cedarpy.Entities.from_json_str(CEDAR_ENTITIES)
    request = {
        "principal": {"type": "Office", "id": "billing"},
        "action": {"type": "Action", "id": "subscribe"},
        "resource": {"type": "Type", "id": "Numberplate"},
        "context": {"now": int(time.time()), "place": "city 1"},
    }
    return lambda: cedarpy.is_authorized(request, policies, entities).allowed


def pyjwt() -> Callable[[], bool]:
    """Return what a service with bearer tokens does: verify the token, look at its claims."""
    secret = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
    public = secret.public_key()
    claims = {"sub": "billing", "type": TYPE_NAME, "actions": ["subscribe"], "exp": int(time.time()) + 86_400}
    token = jwt.encode(claims, secret, algorithm="EdDSA")
    decoder = jwt.PyJWT()

    def decision() -> bool:
        found = decoder.decode(token, public, algorithms=["EdDSA"])
        return found["sub"] == "billing" and found["type"] == TYPE_NAME and "subscribe" in found["actions"]

    return decision


def biscuit() -> Callable[[], bool]:
    """Return Biscuit's authorisation of a token that was parsed and verified before."""
    root = biscuit_auth.KeyPair()
    built = biscuit_auth.BiscuitBuilder(
        'right("Numberplate", "subscribe"); check if time($t), $t < 2100-01-01T00:00:00Z;'
    ).build(root.private_key)
    token = biscuit_auth.Biscuit.from_bytes(built.to_bytes(), root.public_key)
    # Made once: its parsing is no part of a decision. Biscuit limits the wall time of a decision to one
    # millisecond unless told otherwise, and then refuses at random on a busy machine.
    builder = biscuit_auth.AuthorizerBuilder(
        """
        time(2026-11-15T12:00:00Z); resource("Numberplate"); operation("subscribe");
        allow if resource($r), operation($o), right($r, $o);
        """
    )
    limits = builder.limits()
    limits.max_time = timedelta(seconds=10)
    builder.set_limits(limits)

    # Raises if it is refused; returns the number of the policy that allowed it.
    return lambda: builder.build(token).authorize() == 0


BENCH = Benchmark(
    number=4,
    name="decision",
    about="a broker's check of a standing right, and of a client's further and first request",
    cases=cases,
    stood="204 µs with cedarpy, 216 µs with PyJWT and rules, 27.6 µs with biscuit",
    peer_lacks="cedarpy verifies no signature, PyJWT delegates nothing, none returns what may be seen",
)
