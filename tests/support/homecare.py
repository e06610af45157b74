"""The homecare story of OASIS'08, figure 4: prescriptions, and what others see of them.

A hospital owns the types and writes the policy. Its rights are issued as its
server would issue them to members of the roles.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from pathlib import Path

import maia
from maia.broker import BrokerSettings, RecordingSettings
from maia.broker.server.log_recording import LogRecorder
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
    SignedStatement,
    SigningKey,
    TypeName,
    TypePattern,
    exact_name,
    issue,
)
from maia.events import Attribute, AttributeUid, Kind
from maia.expressions import TransformationKeys
from maia.log.disk.event_log import EventLog
from maia.net.observer import QuietRecords
from maia.net.stores import FolderStore
from maia.roles import parse_policy
from maia.roles.grants import possible_rights
from maia.types import SignedDefinition, TypeDefinition, sign_definition, verify_definition

NETWORK = "Homecare"


def key_of(name: str) -> SigningKey:
    return SigningKey.from_seed(sha256(b"homecare " + name.encode()).digest())


HOSPITAL, HOME, CLINIC, SENSOR = (key_of(who) for who in ("hospital", "home broker", "clinic", "sensor"))
AUDITOR, PHARMACY, CARER, DOCTOR = (key_of(who) for who in ("auditor", "pharmacy", "carer", "doctor"))
PEOPLE = (HOME, CLINIC, SENSOR, AUDITOR, PHARMACY, CARER, DOCTOR)
SECRETS = TransformationKeys({HOSPITAL.principal.key: sha256(b"secret of the hospital").digest()})


def _type(name: str, *attributes: tuple[str, Kind]) -> SignedDefinition:
    listed = tuple(
        Attribute(said, AttributeUid(str(uid)), kind) for uid, (said, kind) in enumerate(attributes, start=1)
    )
    return sign_definition(TypeDefinition(TypeName(HOSPITAL.principal, name, "0"), None, listed), HOSPITAL)


PRESCRIBE = _type(
    "nhs.Prescribe",
    ("patient", Kind.STRING),
    ("drug", Kind.STRING),
    ("drug_class", Kind.STRING),
    ("place", Kind.STRING),
    ("emergency", Kind.BOOL),
    ("dose", Kind.FLOAT),
    ("at", Kind.TIMESTAMP),
)
AUTHORISED = _type(
    "nhs.ControlledDrugAuth", ("drug", Kind.STRING), ("reference", Kind.STRING), ("day", Kind.INT)
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


def policy():
    """Return the hospital's policy, checked."""
    types = {
        one.definition.name.name: verify_definition(one, at=system_now(), previous=None)
        for one in DEFINITIONS
    }
    return parse_policy(POLICY, origin="hospital.policy", domain=HOSPITAL.principal, types=types)


def issued(subject: SigningKey, authority: Authority, *, may_delegate: bool = False) -> SignedCertificate:
    certificate = AuthorisationCertificate(
        HOSPITAL.principal, subject.principal, may_delegate, authority, UNBOUNDED
    )
    return issue(certificate, HOSPITAL)


def right_of(role: str, who: SigningKey) -> SignedCertificate:
    """Return the certificate that a member of a role without parameters gets."""
    (right,) = possible_rights(policy(), role, (), who.principal, system_now())
    assert right.authority is not None
    return issued(who, right.authority)


def certificates() -> tuple[SignedCertificate, ...]:
    """Return the right of all to connect, of the sensor to publish, and of the roles' members to read."""
    network = NetworkPattern(HOSPITAL.principal, exact_name(NETWORK))
    prescribe = TypePattern(HOSPITAL.principal, exact_name("nhs.Prescribe"), None)
    connecting = [issued(who, Authority(network, frozenset({Action.CONNECT}))) for who in PEOPLE]
    publishing = issued(SENSOR, Authority(prescribe, frozenset({Action.PUBLISH})))
    roles = (("auditor", AUDITOR), ("pharmacist", PHARMACY), ("carer", CARER))
    return (*connecting, publishing, *(right_of(role, who) for role, who in roles))


@asynccontextmanager
async def home_and_clinic(folder: Path) -> AsyncIterator[tuple[RunningBroker, RunningBroker]]:
    """Run two brokers; the clinic's has the hospital's secrets, and records what it carries."""
    network, rights = NetworkName(HOSPITAL.principal, NETWORK), certificates()
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
    return maia.connect(
        address,
        key=who,
        network=NetworkName(HOSPITAL.principal, NETWORK),
        credentials=(*certificates(), *extra),
        statements=tuple(statements),
        types=list(DEFINITIONS),
        dial_again_s=0.05,
    )
