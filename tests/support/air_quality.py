"""A city's sensors: exact readings never leave the sensors' broker, and the public gets means of areas.

The city owns the types and writes the policy (`policy_world.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from maia.broker import BrokerSettings
from maia.broker.server.server import RunningBroker, run_broker
from maia.client.api.client import Client
from maia.credentials import Authority, NetworkName, SignedCertificate, SigningKey
from maia.events import Kind
from maia.ledger.files import LedgerFiles
from support.policy_world import PolicyWorld, keys_of, type_of

CITY, *PEOPLE = keys_of(
    "air quality", "city", "edge broker", "centre broker", "sensor", "camera", "operator", "public", "mast"
)
EDGE, CENTRE, SENSOR, CAMERA, OPERATOR, PUBLIC, MAST = PEOPLE

READING = type_of(
    CITY, "city.Reading", ("sensor", Kind.STRING), ("place", Kind.STRING), ("level", Kind.FLOAT)
)
SIGHTING = type_of(CITY, "city.Sighting", ("plate", Kind.STRING), ("place", Kind.STRING), ("speed", Kind.INT))
PASSING = type_of(CITY, "city.Passing", ("vehicle", Kind.STRING), ("area", Kind.STRING))
AREA = type_of(
    CITY,
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
role mast

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
rule mast
    while works_as(holder, "mast")
    for 30 days

grant sensor
    may publish Reading(*)
    where level >= 0
grant camera
    may publish Sighting(*)
    where speed > 0
grant mast
    may publish Reading(*)
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

transform Reading on publication for mast
    set place := first(place, 3)

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


WORLD = PolicyWorld(CITY, NetworkName(CITY.principal, "Air"), tuple(PEOPLE), DEFINITIONS, POLICY)
SECRETS, issued, verified_types = WORLD.secrets, WORLD.issued, WORLD.types


def authorities_of(role: str, who: SigningKey) -> list[Authority]:
    """Return what the policy grants a member of a role without parameters."""
    return [one.certificate.authority for one in WORLD.rights_of(role, who)]


def certificates() -> tuple[SignedCertificate, ...]:
    """Return the right of all to connect, and those of the roles' members."""
    members = {"sensor": SENSOR, "camera": CAMERA, "operator": OPERATOR, "public": PUBLIC, "mast": MAST}
    rights = (one for role, who in members.items() for one in WORLD.rights_of(role, who))
    return (*WORLD.connecting(), *rights)


@asynccontextmanager
async def edge_and_centre(
    account: LedgerFiles | None = None, **settings: object
) -> AsyncIterator[tuple[RunningBroker, RunningBroker]]:
    """Run two brokers: sensors are at the edge, which has the city's secret, and readers at the centre."""
    at_edge = BrokerSettings(WORLD.network, "127.0.0.1:0", certificates(), transformation_keys=SECRETS)
    async with run_broker(EDGE, at_edge) as edge:
        at_centre = replace(at_edge, seeds=(edge.address,), **settings)
        async with run_broker(CENTRE, at_centre, ledger=account) as centre:
            yield edge, centre


def connected(
    who: SigningKey, address: str, extra: Iterable[SignedCertificate] = ()
) -> AbstractAsyncContextManager[Client]:
    return WORLD.connected(who, address, (*certificates(), *extra))
