"""Homecare: what becomes of a prescription on its way to others? (OASIS'08, section 7.2, figure 4.)

A doctor prescribes at a patient's home. The hospital's PostgreSQL database
stores the event, asks in the same transaction whether this doctor treats this
patient, and releases with the same commit a prescription for the pharmacy,
if so, and a record of the authorisation. The auditor sees of that record a
controlled drug without the patient. A carer sees the patient's place blurred unless
it is an emergency, and a doctor what concerns the patients she treats.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from maia.demo.scenes.scene import (
    HOLDER,
    Database,
    Derived,
    Happening,
    Organisation,
    Publisher,
    Reader,
    Scene,
    attributes,
    staff_roles,
    works_as,
)
from maia.events import Instant

if TYPE_CHECKING:
    from maia.demo.scenes.play import Stage


_PRESCRIBE, _PRESCRIPTION = "nhs.Prescribe", "nhs.Prescription"
_AUTHORISATION, _CONTROLLED = "nhs.Authorisation", "nhs.ControlledDrugAuth"
_HOSPITAL: Final = "hospital"
_DATABASE: Final = "hospital database"
_GREY, _WHITE = "Dr Grey", "Dr White"
_TABLET: Final = "Dr Grey's tablet"
_PATIENTS: Final = ("Ann", "Bob", "Cas", "Dee")
_PLACES: Final = {"Ann": "CB3 0FD", "Bob": "CB4 1YG", "Cas": "CB1 2QA", "Dee": "CB2 8PH"}
_TREATS: Final = frozenset({(_GREY, "Ann"), (_GREY, "Bob"), (_WHITE, "Cas"), (_WHITE, "Dee")})
_ROWS: Final = 160
"""How many generated prescriptions there are beside the ones that are shown."""
_SEED: Final = 2008

_POLICY: Final = """\
policy "County hospital"

type Prescribe = nhs.Prescribe
type Prescription = nhs.Prescription
type Authorisation = nhs.Authorisation
type ControlledDrugAuth = nhs.ControlledDrugAuth
fact licensed(who: principal, doctor: string)
fact treats(doctor: string, patient: string)
STAFF
role doctor(doctor: string)

rule doctor(d)
    while licensed(holder, d)
    for 1 days

grant pharmacist
    may subscribe Prescription(*)
grant auditor
    may subscribe Authorisation(*)
grant carer
    may subscribe Prescribe(time, patient, place, emergency)
grant doctor(d)
    may subscribe Prescribe(*)

# The auditor learns which controlled drugs were authorised, and nothing about patients.
transform Authorisation for auditor as ControlledDrugAuth
    where drug_class in ("A", "B")
    set time := truncate(time, "day")
    set prescriber := doctor
    set reference := pseudonym(patient)
    set drug := drug
    set drug_class := drug_class
    set dose := dose
    set treated := treated

# Where the patient is, is blurred unless it is an emergency.
transform Prescribe for carer
    set place := first(place, 3) when not emergency == true

restrict Prescribe to doctor(d) when treats(d, patient)
end
""".replace("STAFF\n", staff_roles("pharmacist", "auditor", "carer"))

_PRESCRIPTIONS: Final = """\
SELECT a.time, a.doctor, a.patient, a.drug, a.dose
FROM arrived a JOIN treats t ON (t.doctor, t.patient) = (a.doctor, a.patient)
ORDER BY a.maia_position, a.maia_row
"""
_AUTHORISATIONS: Final = """\
SELECT a.time, a.doctor, a.patient, a.drug, a.drug_class, a.dose,
       EXISTS (SELECT FROM treats t WHERE (t.doctor, t.patient) = (a.doctor, a.patient)) AS treated
FROM arrived a ORDER BY a.maia_position, a.maia_row
"""


def _made_of(event: Happening, treats: Collection[tuple[str, str]]) -> list[tuple[str, Happening]]:
    """Say what the two queries have to make of a prescription."""
    common = {name: event[name] for name in ("time", "doctor", "patient", "drug", "dose")}
    is_treated = (event["doctor"], event["patient"]) in treats
    authorisation = {**common, "drug_class": event["drug_class"], "treated": is_treated}
    released = [(_PRESCRIPTION, common)] if is_treated else []
    return [*released, (_AUTHORISATION, authorisation)]


def _prescribed(
    doctor: str, patient: str, drug: str, drug_class: str, dose: float, *, is_emergency: bool = False
) -> Happening:
    return {
        "time": Instant.parse("2026-11-02T08:30:00Z"),
        "doctor": doctor,
        "patient": patient,
        "drug": drug,
        "drug_class": drug_class,
        "dose": dose,
        "place": _PLACES[patient],
        "emergency": is_emergency,
    }


_BY_GREY: Final = (
    _prescribed(_GREY, "Ann", "morphine", "A", 10.0),
    _prescribed(_GREY, "Bob", "amoxicillin", "none", 500.0, is_emergency=True),
    _prescribed(_GREY, "Cas", "fentanyl", "A", 0.4),
)


def _generated(doctor: str) -> list[Happening]:
    """Return two weeks of one doctor: mostly for patients of the doctor's own."""
    from maia.spark.generators import PRESCRIPTIONS

    rows = PRESCRIPTIONS.rows(rows=_ROWS, seed=_SEED, per_day=_ROWS // 14).to_pylist()
    found: list[Happening] = []
    for number, row in enumerate(rows):
        treated_by = _GREY if number % 2 else _WHITE
        patient = _PATIENTS[number // 2 % 2 if treated_by == _GREY else 2 + number // 2 % 2]
        if doctor == (treated_by if number % 16 else _WHITE):
            event = _prescribed(doctor, patient, row["drug"], row["drug_class"], row["dose"])
            found.append({**event, "time": Instant.from_datetime(row["time"]), "emergency": number % 20 == 0})
    return found


async def _doctors_prescribe(stage: Stage) -> None:
    await stage.publish(_GREY, _BY_GREY, is_close_up=True)
    stage.say(
        "Dr Grey prescribes for Ann and, in an emergency, for Bob; and for Cas, whom she does not treat"
    )
    by_grey = _generated(_GREY)
    delivered = await stage.publish(_GREY, by_grey)
    stage.say(f"{len(by_grey)} more prescriptions by her, of two weeks: {delivered:,} deliveries")


async def _the_connector_dies(stage: Stage) -> None:
    """Kill the connector, let events pile up, and start it again: nothing is lost, nothing comes twice."""
    by_white, before = _generated(_WHITE), stage.deliveries()
    await asyncio.to_thread(stage.world.kill, _DATABASE)
    await stage.send(_WHITE, by_white)
    stage.say(f"the database's connector is killed; Dr White prescribes {len(by_white)} times")
    await asyncio.to_thread(stage.world.start_again, _DATABASE)
    await stage.receive()
    stage.say(f"the connector runs again: {stage.deliveries() - before:,} deliveries, none lost, none twice")


async def _some_ask_for_more(stage: Stage) -> None:
    types = stage.world.cast.definitions
    auditor, pharmacy, carer = (stage.clients[who] for who in ("auditor", "pharmacy", "carer"))
    await stage.attempt(
        "the auditor asks for the controlled drugs of Ann",
        auditor.subscribe(types[_AUTHORISATION], 'patient == "Ann"', shown_as=types[_CONTROLLED]),
    )
    await stage.attempt("the pharmacy asks for what was prescribed", pharmacy.subscribe(types[_PRESCRIBE]))
    await stage.attempt(
        "the carer asks for morphine", carer.subscribe(types[_PRESCRIBE], 'drug == "morphine"')
    )


async def _a_treatment_ends(stage: Stage) -> None:
    await stage.retract(_TABLET, "treats", _GREY, "Bob")
    await stage.forget_row((_GREY, "Bob"))
    late = _prescribed(_GREY, "Bob", "codeine", "B", 30.0)
    before = len(stage.inbox(_TABLET).events), len(stage.inbox("pharmacy").events)
    await stage.publish(_GREY, [late], is_close_up=True)
    if before != (len(stage.inbox(_TABLET).events), len(stage.inbox("pharmacy").events)):
        stage.broken.append("a prescription for a patient who is not treated reached pharmacy or tablet")
    stage.say(
        "Dr Grey's treatment of Bob ends; her next prescription for him is stored, and goes to no pharmacy"
    )


async def _nothing_leaked(stage: Stage) -> None:
    """Search what the auditor and the carer received."""
    seen = {str(value) for values in stage.values_seen("auditor").values() for value in values}
    if seen & {*_PATIENTS, *_PLACES.values()}:
        stage.broken.append("the auditor saw a patient or a place")
    for event in stage.inbox("carer").events:
        is_exact = event["place"] == _PLACES[str(event["patient"])]
        if is_exact is not event["emergency"]:
            stage.broken.append("the carer saw an exact place without an emergency, or a blurred one in one")
    await stage.check_stored()


_PUBLISHERS: Final = tuple(
    Publisher(who, "home broker", _PRESCRIBE, where=f'doctor == "{who}"') for who in (_GREY, _WHITE)
)
HOMECARE: Final = Scene(
    name="homecare",
    before="""\
Doctors prescribe at patients' homes. The hospital's PostgreSQL database stores each
event, asks in the same transaction whether the doctor treats the patient, and
releases what follows with the same commit. By the hospital's policy
  the pharmacy      gets a Prescription, if the doctor treats the patient
  the auditor       gets a ControlledDrugAuth for classes A and B: no patient
  the carer         sees where the patient is, blurred unless it is an emergency
  Dr Grey's tablet  shows what is prescribed to the patients she treats
""",
    network="Homecare",
    owner=_HOSPITAL,
    types={
        _PRESCRIBE: attributes(
            "time:timestamp doctor:string patient:string drug:string drug_class:string dose:float "
            "place:string emergency:bool"
        ),
        _PRESCRIPTION: attributes("time:timestamp doctor:string patient:string drug:string dose:float"),
        _AUTHORISATION: attributes(
            "time:timestamp doctor:string patient:string drug:string drug_class:string dose:float "
            "treated:bool"
        ),
        _CONTROLLED: attributes(
            "time:timestamp prescriber:string reference:string drug:string drug_class:string dose:float "
            "treated:bool"
        ),
    },
    brokers=("hospital broker", "home broker"),
    organisations=(Organisation(_HOSPITAL, "hospital broker", _POLICY),),
    publishers=_PUBLISHERS,
    readers=(
        # At the broker that the connector publishes through: after a publisher has come back, a live
        # subscriber at another broker may miss its first events, until the interest has travelled.
        Reader(
            "pharmacy",
            _HOSPITAL,
            "hospital broker",
            works_as("pharmacist"),
            _PRESCRIPTION,
            "what it has to hand out",
        ),
        Reader(
            "auditor",
            _HOSPITAL,
            "hospital broker",
            works_as("auditor"),
            _AUTHORISATION,
            "controlled drugs, by pseudonym",
            shown_as=_CONTROLLED,
            application="prescription-audit",
        ),
        Reader("carer", _HOSPITAL, "home broker", works_as("carer"), _PRESCRIBE, "places, blurred"),
        Reader(
            _TABLET,
            _HOSPITAL,
            "home broker",
            (("licensed", (HOLDER, _GREY)), *(("treats", pair) for pair in sorted(_TREATS))),
            _PRESCRIBE,
            "patients she treats",
        ),
    ),
    probes=((_GREY, _prescribed(_GREY, "Ann", "morphine", "A", 1.0)),),
    acts=(_doctors_prescribe, _the_connector_dies, _some_ask_for_more, _a_treatment_ends, _nothing_leaked),
    database=Database(
        _DATABASE,
        "hospital broker",
        _PRESCRIBE,
        (Derived(_PRESCRIPTION, _PRESCRIPTIONS), Derived(_AUTHORISATION, _AUTHORISATIONS)),
        "treats",
        ("doctor", "patient"),
        _TREATS,
        _made_of,
        is_needed=True,
    ),
    secrets_of=_HOSPITAL,
)
