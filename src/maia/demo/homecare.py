"""Homecare: what becomes of a prescription on its way across domains? (OASIS'08, section 7.2, figure 4.)

Home, hospital, pharmacy and auditor are four organisations, each with a domain and a broker of its own. A
doctor prescribes at a patient's home, through the broker of the homecare service. The
hospital's PostgreSQL database stores the event, asks in the same transaction whether this doctor treats this
patient, and releases with the same commit what was authorised. At the hospital's border that becomes, by
transformations, a `Prescription` for the pharmacy, if the doctor treats the patient, and a
`ControlledDrugAuth` without the patient for the auditor. The pharmacy's database is a replica of its
prescriptions, and loses one that is withdrawn. A carer sees the patient's place blurred unless
it is an emergency, and a doctor what concerns the patients she treats.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from maia.demo.world import Database, Happening, Made, Replica, Story, StoryReader, on_staff, staff_roles
from maia.events import SECOND, Instant

if TYPE_CHECKING:
    from maia.demo.stage import Stage

_GREY, _WHITE = "Dr Grey", "Dr White"
_TABLET: Final = "Dr Grey's tablet"
_PATIENTS: Final = ("Ann", "Bob", "Cas", "Dee")
_PLACES: Final = {"Ann": "CB3 0FD", "Bob": "CB4 1YG", "Cas": "CB1 2QA", "Dee": "CB2 8PH"}
_TREATS: Final = frozenset({(_GREY, "Ann"), (_GREY, "Bob"), (_WHITE, "Cas"), (_WHITE, "Dee")})
_ROWS: Final = 160
"""How many generated prescriptions there are beside the ones that are shown."""
_SEED: Final = 2008
_DAY: Final = 86_400 * SECOND
_REPLICATE_S: Final = 60.0

_COMMON: Final = "time:timestamp doctor:string patient:string drug:string"
_SETUP: Final = f"""\
org new hospital
org new home
org new pharmacy
org new auditor
type define Prescribe {_COMMON} drug_class:string dose:float place:string emergency:bool withdrawn:bool \\
    --org hospital
type define Prescription operation:string {_COMMON} dose:float --org hospital
type define Authorisation operation:string {_COMMON} drug_class:string dose:float treated:bool --org hospital
type define ControlledDrugAuth time:timestamp prescriber:string reference:string drug:string \\
    drug_class:string dose:float treated:bool --org hospital
grant home/home.pub --org hospital --may publish:Prescribe --delegable -o home.grant
grant home/home.pub --org hospital --may subscribe:Prescribe --only time,patient,place,emergency \\
    --set 'place := first(place, 3) when not emergency == true' --delegable -o carers.grant
grant pharmacy/pharmacy.pub --org hospital --may subscribe:Authorisation --where 'treated == true' \\
    --shown-as Prescription --set 'operation := operation' --set 'time := time' --set 'doctor := doctor' \\
    --set 'patient := patient' --set 'drug := drug' --set 'dose := dose' --delegable -o pharmacy.grant
grant auditor/auditor.pub --org hospital --may subscribe:Authorisation \\
    --where 'drug_class in ("A", "B") and operation == "insert"' --shown-as ControlledDrugAuth \\
    --set 'time := truncate(time, "day")' --set 'prescriber := doctor' \\
    --set 'reference := pseudonym(patient)' --set 'drug := drug' --set 'drug_class := drug_class' \\
    --set 'dose := dose' --set 'treated := treated' --delegable -o auditor.grant
network join home.grant --org home
network join pharmacy.grant --org pharmacy
network join auditor.grant --org auditor
org join carers.grant --org home
member add grey --org home --may publish:Prescribe --where 'doctor == "{_GREY}"'
member add white --org home --may publish:Prescribe --where 'doctor == "{_WHITE}"'
member add carer --org home
member add pharmacist --org pharmacy
member add shop --org pharmacy --may subscribe:Authorisation
member add inspector --org auditor
member add tablet --org hospital
member add database --org hospital --may subscribe:Prescribe --may publish:Authorisation
"""
_FACTS: Final = "".join(
    f"domain fact assert treats '{doctor}' {patient} --as hospital\n" for doctor, patient in sorted(_TREATS)
)
_STAFF: Final = {
    "hospital": {"tablet": f"licensed HOLDER '{_GREY}'"},
    "home": {"carer": "works_as HOLDER carer"},
    "pharmacy": {"pharmacist": "works_as HOLDER pharmacist"},
    "auditor": {"inspector": "works_as HOLDER inspector"},
}
_HOSPITAL: Final = """\
policy "County hospital"

fact licensed(who: principal, doctor: string)
fact treats(doctor: string, patient: string)

role doctor(doctor: string)

rule doctor(d)
    while licensed(holder, d)
    for 1 days

grant doctor(d)
    may subscribe Prescribe(*)

restrict Prescribe to doctor(d) when treats(d, patient)
end
"""


def _passes_on(title: str, role: str, of: str) -> str:
    """Return the policy of an organisation that passes on to its staff what the hospital shows it."""
    return f'policy "{title}"\n\n{staff_roles(role)}grant {role}\n    may subscribe {of}(*)\nend\n'


_POLICIES: Final = {
    "hospital": _HOSPITAL,
    "home": _passes_on("Homecare service", "carer", "Prescribe"),
    "pharmacy": _passes_on("Pharmacy", "pharmacist", "Authorisation"),
    "auditor": _passes_on("Auditor of controlled drugs", "inspector", "Authorisation"),
}

_AUTHORISATIONS: Final = """\
SELECT CASE WHEN a.withdrawn THEN 'delete' ELSE 'insert' END AS operation,
       a.time, a.doctor, a.patient, a.drug, a.drug_class, a.dose,
       EXISTS (SELECT FROM treats t WHERE (t.doctor, t.patient) = (a.doctor, a.patient)) AS treated
FROM arrived a ORDER BY a.maia_position, a.maia_row
"""


def _made_of(event: Happening, treats: Collection[tuple[str, str]]) -> Made:
    """Say what the query has to make of a prescription."""
    kept = {name: event[name] for name in ("time", "doctor", "patient", "drug", "drug_class", "dose")}
    operation = "delete" if event["withdrawn"] else "insert"
    is_treated = (event["doctor"], event["patient"]) in treats
    return [("Authorisation", {"operation": operation, **kept, "treated": is_treated})]


def _prescribed(
    doctor: str, patient: str, drug: str, drug_class: str, dose: float, *,
    is_emergency: bool = False, is_withdrawn: bool = False,
) -> Happening:  # fmt: skip
    return {
        "time": Instant.parse("2026-11-02T08:30:00Z"),
        "doctor": doctor,
        "patient": patient,
        "drug": drug,
        "drug_class": drug_class,
        "dose": dose,
        "place": _PLACES[patient],
        "emergency": is_emergency,
        "withdrawn": is_withdrawn,
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


def _doctors_prescribe(stage: Stage) -> None:
    stage.publish("grey", "Prescribe", _BY_GREY, is_close_up=True)
    stage.say(
        "Dr Grey prescribes for Ann and, in an emergency, for Bob; and for Cas, whom she does not treat"
    )
    by_grey = _generated(_GREY)
    delivered = stage.publish("grey", "Prescribe", by_grey)
    stage.say(f"{len(by_grey)} more prescriptions by her, of two weeks: {delivered:,} deliveries")


def _the_connector_dies(stage: Stage) -> None:
    """Kill the connector, let events pile up, and start it again: nothing is lost, nothing comes twice."""
    by_white, before = _generated(_WHITE), stage.deliveries()
    stage.world.children["connector of hospital"].kill()
    stage.send("white", "Prescribe", by_white)
    stage.say(f"the database's connector is killed; Dr White prescribes {len(by_white)} times")
    stage.world.start("connector of hospital").ready()
    stage.receive()
    stage.say(f"the connector runs again: {stage.deliveries() - before:,} deliveries, none lost, none twice")


def _some_ask_for_more(stage: Stage) -> None:
    auditor, pharmacy, carer = (stage.client(who) for who in ("inspector", "pharmacist", "carer"))
    prescribe = stage.members["grey"].type("Prescribe").signed
    stage.attempt("the auditor asks for the controlled drugs of Ann", auditor.subscribe, "Authorisation",
                  'patient == "Ann"', shown_as="ControlledDrugAuth")  # fmt: skip
    stage.attempt("the pharmacy asks for what was prescribed", pharmacy.subscribe, prescribe)
    stage.attempt("the carer asks for morphine", carer.subscribe, "Prescribe", 'drug == "morphine"')


def _a_prescription_is_withdrawn(stage: Stage) -> None:
    """Take a prescription back: the pharmacy's database loses it, and keeps all others."""
    before = len(_as_released(stage, "the pharmacy's database has what the pharmacy may see"))
    wrong = _prescribed(_GREY, "Ann", "morphine", "A", 10.0, is_withdrawn=True)
    stage.publish("grey", "Prescribe", [wrong], is_close_up=True)
    left = len(_as_released(stage, "what is withdrawn is gone from the pharmacy's database"))
    stage.say(
        f"she withdraws what she prescribed for Ann: the pharmacy's database has {left} of {before} left"
    )


def _as_released(stage: Stage, claim: str) -> list[tuple[object, ...]]:
    """Wait until the pharmacy's database holds what was released; return what it holds."""
    deadline = time.monotonic() + _REPLICATE_S
    while (held := _stocked(stage)) != _prescriptions(stage) and time.monotonic() < deadline:
        time.sleep(0.05)
    stage.expect(claim, held, _prescriptions(stage))
    return held


def _stocked(stage: Stage) -> list[tuple[object, ...]]:
    """Return what the pharmacy's database holds, without probes."""
    shop = stage.world.sql(
        "SELECT time, doctor, patient, drug, dose FROM prescriptions WHERE time > '2000-01-01'",
        at=stage.world.replica,
    )
    return sorted((Instant.from_datetime(one[0]), *one[1:]) for one in shop)


def _prescriptions(stage: Stage) -> list[tuple[object, ...]]:
    """Return what it has to hold: what was released, without what was withdrawn."""
    held: Counter[tuple[object, ...]] = Counter()
    for one in stage.published:
        if one.of == "Authorisation" and one.event["treated"] and not one.is_probe:
            row = tuple(one.event[name] for name in ("time", "doctor", "patient", "drug", "dose"))
            held[row] += 1 if one.event["operation"] == "insert" else -1
    return sorted(held.elements())


def _a_treatment_ends(stage: Stage) -> None:
    stage.maia(f"domain fact retract treats '{_GREY}' Bob --as hospital")
    stage.world.sql("DELETE FROM treats WHERE (doctor, patient) = (%s, %s)", _GREY, "Bob")
    stage.rows.discard((_GREY, "Bob"))
    stage.lost.add(_TABLET)

    def shown() -> list[int]:
        return [len(stage.inboxes[who].events) for who in (_TABLET, "pharmacy")]

    before = shown()
    stage.publish("grey", "Prescribe", [_prescribed(_GREY, "Bob", "codeine", "B", 30.0)], is_close_up=True)
    stage.expect(
        "a prescription for a patient who is not treated reaches no pharmacy and no tablet", shown(), before
    )
    stage.say(
        "Dr Grey's treatment of Bob ends; her next prescription for him is stored, and goes to no pharmacy"
    )


def _nothing_leaked(stage: Stage) -> None:
    """Search what the auditor and the carer received."""
    seen = {str(value) for values in stage.inboxes["auditor"].values().values() for value in values}
    stage.expect("the auditor sees no patient and no place", seen & {*_PATIENTS, *_PLACES.values()}, set())
    for event in stage.inboxes["carer"].events:
        is_exact = event["place"] == _PLACES[str(event["patient"])]
        stage.expect(
            "the carer sees an exact place in an emergency, and no other", is_exact, event["emergency"]
        )
    stage.check_stored()


STORY: Final = Story(
    name="homecare",
    before="""\
Doctors prescribe at patients' homes. Home, hospital, pharmacy and auditor are four
organisations, each with its domain and its broker. The hospital's PostgreSQL database
stores each event, asks in the same transaction whether the doctor treats the patient,
and releases that with the same commit. The hospital transforms what leaves it:
  the pharmacy      gets a Prescription, if the doctor treats the patient; its own
                    database is a replica of these, and loses what is withdrawn
  the auditor       gets a ControlledDrugAuth for classes A and B: no patient
  the carer         of the home sees where the patient is, blurred unless in an emergency
  Dr Grey's tablet  shows what is prescribed to the patients she treats
""",
    setup=_SETUP,
    policies=_POLICIES,
    logins=_FACTS + "".join(on_staff(one, staff) for one, staff in _STAFF.items()),
    readers=(
        StoryReader("pharmacy", "pharmacist", "Authorisation", "what it has to hand out",
               shown_as="Prescription", durable="counter"),
        StoryReader("auditor", "inspector", "Authorisation", "controlled drugs, by pseudonym",
               shown_as="ControlledDrugAuth", application="prescription-audit", durable="audit"),
        StoryReader("carer", "carer", "Prescribe", "places, blurred"),
        StoryReader(_TABLET, "tablet", "Prescribe", "patients she treats"),
    ),
    probes=lambda number: [
        ("grey", "Prescribe", {**_BY_GREY[0], "time": Instant(number * _DAY)})
    ],
    acts=(_doctors_prescribe, _the_connector_dies, _some_ask_for_more, _a_prescription_is_withdrawn,
          _a_treatment_ends, _nothing_leaked),
    database=Database(
        "hospital database", "hospital", "Prescribe",
        {"Authorisation": _AUTHORISATIONS}, "treats", ("doctor", "patient"), _TREATS, _made_of,
        is_needed=True,
    ),
    replica=Replica(
        "pharmacy", "shop", "Authorisation", "prescriptions", shown_as="hospital/types/Prescription.type"
    ),
    secrets_of="hospital",
)  # fmt: skip
