"""A city's sensors: exact readings never leave the sensors' broker, and the public gets means of areas.

The city owns the types and writes the policy. Its rights are issued as its
server would issue them to members of the roles.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from hashlib import sha256

import maia
from maia.broker import BrokerSettings
from maia.broker.server.server import RunningBroker, run_broker
from maia.client.api.client import Client
from maia.clock import system_now
from maia.credentials import (
    UNBOUNDED,
    Action,
    AuthorisationCertificate,
    Authority,
    NetworkName,
    NetworkPattern,
    SignedCertificate,
    SigningKey,
    TypeName,
    TypePattern,
    exact_name,
    issue,
)
from maia.events import Attribute, AttributeUid, Kind
from maia.expressions import TransformationKeys
from maia.ledger.files import LedgerFiles
from maia.roles import parse_policy
from maia.roles.grants import possible_rights
from maia.types import SignedDefinition, TypeDefinition, VerifiedType, sign_definition, verify_definition

NETWORK = "Air"


def key_of(name: str) -> SigningKey:
    return SigningKey.from_seed(sha256(b"air quality " + name.encode()).digest())


CITY, EDGE, CENTRE = (key_of(who) for who in ("city", "edge broker", "centre broker"))
SENSOR, CAMERA, OPERATOR, PUBLIC = (key_of(who) for who in ("sensor", "camera", "operator", "public"))
PEOPLE = (EDGE, CENTRE, SENSOR, CAMERA, OPERATOR, PUBLIC)
SECRETS = TransformationKeys({CITY.principal.key: sha256(b"secret of the city").digest()})


def _type(name: str, *attributes: tuple[str, Kind]) -> SignedDefinition:
    listed = tuple(
        Attribute(said, AttributeUid(str(uid)), kind) for uid, (said, kind) in enumerate(attributes, start=1)
    )
    return sign_definition(TypeDefinition(TypeName(CITY.principal, name, "0"), None, listed), CITY)


READING = _type("city.Reading", ("sensor", Kind.STRING), ("place", Kind.STRING), ("level", Kind.FLOAT))
SIGHTING = _type("city.Sighting", ("plate", Kind.STRING), ("place", Kind.STRING), ("speed", Kind.INT))
PASSING = _type("city.Passing", ("vehicle", Kind.STRING), ("area", Kind.STRING))
AREA = _type(
    "city.AreaReading",
    ("area", Kind.STRING),
    ("mean_level", Kind.FLOAT),
    ("readings", Kind.INT),
    ("begins", Kind.TIMESTAMP),
)
DEFINITIONS = (READING, SIGHTING, PASSING, AREA)

POLICY = """\
policy "City"

type Reading = city.Reading
type Sighting = city.Sighting
type Passing = city.Passing
type AreaReading = city.AreaReading
fact works_as(who: principal, what: string)

role sensor
role camera
role operator
role public

rule sensor
    while works_as(holder, "sensor")
    for 30 days
rule camera
    while works_as(holder, "camera")
    for 30 days
rule operator
    while works_as(holder, "operator")
    for 30 days

rule public
    while works_as(holder, "public")
    for 30 days

grant sensor
    may publish Reading(*)
    where level >= 0
grant camera
    may publish Sighting(*)
    where speed > 0
grant operator
    may subscribe Reading(*)
grant operator
    may subscribe Passing(*)

grant public
    may subscribe Reading(*)

transform Reading on publication for sensor
    set sensor := pseudonym(sensor, domain)
    set place := first(place, 3) when not level > 100
    set level := round_to(level, 0.5)

# A camera writes what it has seen, and what is published is that a vehicle passed.
transform Sighting on publication for camera as Passing
    set vehicle := pseudonym(plate, domain)
    set area := first(place, 3)

# The public learns what the air is like where at least two sensors are.
summarise Reading for public as AreaReading every 1 second at least 2 late 4 seconds
    where level <= 200
    per area := first(place, 2)
    set mean_level := mean(level, 0.1)
    set readings := count()
    set begins := period_start()
end
"""


def verified_types() -> dict[str, VerifiedType]:
    return {
        one.definition.name.name: verify_definition(one, at=system_now(), previous=None)
        for one in DEFINITIONS
    }


def issued(subject: SigningKey, authority: Authority, *, may_delegate: bool = False) -> SignedCertificate:
    certificate = AuthorisationCertificate(
        CITY.principal, subject.principal, may_delegate, authority, UNBOUNDED
    )
    return issue(certificate, CITY)


def authorities_of(role: str, who: SigningKey) -> list[Authority]:
    """Return what the policy grants a member of a role without parameters."""
    policy = parse_policy(POLICY, origin="city.policy", domain=CITY.principal, types=verified_types())
    rights = possible_rights(policy, role, (), who.principal, system_now())
    return [right.authority for right in rights if right.authority is not None]


def certificates() -> tuple[SignedCertificate, ...]:
    """Return the right of all to connect, and those of the roles' members."""
    network = NetworkPattern(CITY.principal, exact_name(NETWORK))
    connecting = [issued(who, Authority(network, frozenset({Action.CONNECT}))) for who in PEOPLE]
    members = (("sensor", SENSOR), ("camera", CAMERA), ("operator", OPERATOR), ("public", PUBLIC))
    rights = [issued(who, one) for role, who in members for one in authorities_of(role, who)]
    return (*connecting, *rights)


def plain_right(who: SigningKey, definition: SignedDefinition) -> SignedCertificate:
    """Return a right to publish a type as it is written."""
    resources = TypePattern(CITY.principal, exact_name(definition.definition.name.name), None)
    return issued(who, Authority(resources, frozenset({Action.PUBLISH})))


@asynccontextmanager
async def edge_and_centre(
    account: LedgerFiles | None = None, **settings: object
) -> AsyncIterator[tuple[RunningBroker, RunningBroker]]:
    """Run two brokers: sensors are at the edge, which has the city's secret, and readers at the centre."""
    network = NetworkName(CITY.principal, NETWORK)
    at_edge = BrokerSettings(network, "127.0.0.1:0", certificates(), transformation_keys=SECRETS)
    async with run_broker(EDGE, at_edge) as edge:
        at_centre = replace(at_edge, seeds=(edge.address,), **settings)
        async with run_broker(CENTRE, at_centre, ledger=account) as centre:
            yield edge, centre


def connected(
    who: SigningKey, address: str, extra: Iterable[SignedCertificate] = ()
) -> AbstractAsyncContextManager[Client]:
    return maia.connect(
        address,
        key=who,
        network=NetworkName(CITY.principal, NETWORK),
        credentials=(*certificates(), *extra),
        types=list(DEFINITIONS),
        dial_again_s=0.05,
    )
