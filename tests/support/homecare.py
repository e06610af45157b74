"""The homecare story of OASIS'08, figure 4: prescriptions, and what others see of them.

A hospital owns the types and writes the policy (`policy_world.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from maia.broker import BrokerSettings, RecordingSettings
from maia.broker.server.log_recording import LogRecorder
from maia.broker.server.server import RunningBroker, run_broker
from maia.client.api.client import Client
from maia.clock import system_now
from maia.credentials import NetworkName, SignedCertificate, SignedStatement, SigningKey
from maia.events import Kind
from maia.log.disk.event_log import EventLog
from maia.net.observer import QuietRecords
from maia.net.stores import FolderStore
from support.policy_world import PolicyWorld, keys_of, type_of

HOSPITAL, *PEOPLE = keys_of(
    "homecare", "hospital", "home broker", "clinic", "sensor", "auditor", "pharmacy", "carer", "doctor"
)
HOME, CLINIC, SENSOR, AUDITOR, PHARMACY, CARER, DOCTOR = PEOPLE

PRESCRIBE = type_of(
    HOSPITAL,
    "nhs.Prescribe",
    ("patient", Kind.STRING),
    ("drug", Kind.STRING),
    ("drug_class", Kind.STRING),
    ("place", Kind.STRING),
    ("emergency", Kind.BOOL),
    ("dose", Kind.FLOAT),
    ("at", Kind.TIMESTAMP),
)
AUTHORISED = type_of(
    HOSPITAL, "nhs.ControlledDrugAuth", ("drug", Kind.STRING), ("reference", Kind.STRING), ("day", Kind.INT)
)
DEFINITIONS = (PRESCRIBE, AUTHORISED)

POLICY = """\
policy "County hospital"

type Prescribe = nhs.Prescribe
type ControlledDrugAuth = nhs.ControlledDrugAuth
fact treats(doctor: string, patient: string)
fact licensed(who: principal, doctor: string)
fact works_as(who: principal, what: string)

role auditor
role pharmacist
role carer
role doctor(doctor: string)

rule auditor
    while works_as(holder, "auditor")
    for 30 days
rule pharmacist
    while works_as(holder, "pharmacist")
    for 30 days
rule carer
    while works_as(holder, "carer")
    for 30 days
rule doctor(d)
    while licensed(holder, d)
    for 30 days

grant auditor
    may subscribe Prescribe(*)
grant pharmacist
    may subscribe Prescribe(drug, dose, patient)
grant carer
    may subscribe Prescribe(patient, place, emergency)
grant doctor(d)
    may subscribe Prescribe(*)

# The auditor learns which controlled drugs were authorised, and nothing about patients.
transform Prescribe for auditor as ControlledDrugAuth
    where drug_class in ("A", "B")
    set drug := upper(drug)
    set reference := pseudonym(patient)
    set day := day_of(at)

# Where the patient is, is blurred unless it is an emergency.
transform Prescribe for carer
    set place := first(place, 2) when not emergency == true

restrict Prescribe to doctor(d) when treats(d, patient)
end
"""


WORLD = PolicyWorld(HOSPITAL, NetworkName(HOSPITAL.principal, "Homecare"), tuple(PEOPLE), DEFINITIONS, POLICY)
SECRETS, issued, policy = WORLD.secrets, WORLD.issued, WORLD.policy
NETWORK = WORLD.network.name


def right_of(role: str, who: SigningKey) -> SignedCertificate:
    """Return the certificate that a member of a role without parameters gets."""
    (right,) = WORLD.rights_of(role, who)
    return right


def certificates() -> tuple[SignedCertificate, ...]:
    """Return the right of all to connect, of the sensor to publish, and of the roles' members to read."""
    roles = (("auditor", AUDITOR), ("pharmacist", PHARMACY), ("carer", CARER))
    rights = (right_of(role, who) for role, who in roles)
    return (*WORLD.connecting(), WORLD.publishing(SENSOR, PRESCRIBE), *rights)


@asynccontextmanager
async def home_and_clinic(folder: Path) -> AsyncIterator[tuple[RunningBroker, RunningBroker]]:
    """Run two brokers; the clinic's has the hospital's secrets, and records what it carries."""
    network, rights = WORLD.network, certificates()
    with EventLog.open(folder / "log") as log:
        recorder = LogRecorder(log, clock=system_now, records=QuietRecords())
        async with run_broker(HOME, BrokerSettings(network, "127.0.0.1:0", rights)) as home:
            settings = BrokerSettings(
                network,
                "127.0.0.1:0",
                rights,
                seeds=(home.address,),
                recording=RecordingSettings(),
                transformation_keys=SECRETS,
            )
            store = FolderStore(folder / "kept")
            async with run_broker(CLINIC, settings, store=store, recorder=recorder) as clinic:
                yield home, clinic


def connected(
    who: SigningKey,
    address: str,
    extra: Iterable[SignedCertificate] = (),
    statements: Iterable[SignedStatement] = (),
) -> AbstractAsyncContextManager[Client]:
    return WORLD.connected(who, address, (*certificates(), *extra), statements)
