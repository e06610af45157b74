"""X6: consortium, city sensors, stock ticker and homecare as `maia demo` plays them: processes over TLS."""

from __future__ import annotations

import json
import subprocess

import pytest

from support.nursery import maia_command

pytestmark = pytest.mark.postgres


def played(*words: str) -> dict:
    """Play a scene once; every delivery was compared with the kernel by the time it ends."""
    command = [maia_command(), "demo", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout, done.stderr
    record = json.loads(done.stdout)
    assert (record["failed"], done.returncode) == ([], 0)
    return record


def test_three_organisations_see_of_each_other_what_was_granted_and_the_ledgers_say_the_same() -> None:
    """The tutorial for a consortium: two owners of one name, sealed, roles, a kill, a grant that ends."""
    consortium = played("consortium")
    shown = {
        who: ({name for name, count in one["values"].items() if count}, one["delivered"], one["ended"])
        for who, one in consortium["readers"].items()
    }
    assert shown == {
        "pilot": ({"ship", "quay", "draught"}, 20, None),
        "desk, manifests": ({"ship"}, 40, "POLICY-REVOKED"),
        "desk, berths": ({"ship", "berth"}, 60, None),
        "inspector": ({"ship", "cargo"}, 20, "POLICY-REVOKED"),
    }
    assert seen(consortium, 0, "pilot") == {"ship": "Otto", "quay": "Burchard", "draught": 15.0}
    codes = ["INPUT-TYPE-NAME", "POLICY-ATTRIBUTE-NOT-READABLE", "POLICY-NO-CHAIN", "POLICY-NO-CHAIN"]
    assert list(consortium["refused"].values()) == codes


def seen(record: dict, which: int, who: str) -> dict | None:
    """Return what a reader received of one of the events that are shown."""
    return record["close_up"][which]["seen"].get(who)


def test_the_public_sees_a_city_coarsely_and_the_operator_as_it_is() -> None:
    city = played("city")
    published = city["close_up"][0]["event"]
    assert seen(city, 0, "operator") == seen(city, 0, "Mrs Okafor") == published
    coarse = {"time": "2026-11-02T08:00:00Z", "easting": 529_000, "northing": 184_000, "noise_db": 65.0}
    assert seen(city, 0, "citizen app") == {**published, **coarse, "pm25": 10.0, "sensor": None, "no2": None}
    # Dangerous air is shown as it is; the sensor of another house is not shown to a resident at all.
    assert seen(city, 2, "citizen app")["pm25"] == city["close_up"][2]["event"]["pm25"] == 63.9
    assert seen(city, 1, "Mrs Okafor") is None
    # A researcher can tell that two readings come from one sensor, and not from which.
    first, other, again = (seen(city, which, "researcher")["sensor"] for which in range(3))
    assert first == again != other
    assert "Camden 7" not in {first, other}
    # The database makes an alarm of dangerous air, for the officer who is on call in that district.
    alarm = {"time": "2026-11-02T23:52:48Z", "district": "Camden", "pm25": 63.9, "officer": None}
    assert [one["by"] for one in city["close_up"]] == ["gateway"] * 3 + ["council database"]
    assert seen(city, 3, "Dr Patel") == alarm
    assert set(city["refused"].values()) == {"POLICY-ATTRIBUTE-NOT-READABLE", "POLICY-NO-CHAIN"}
    assert city["readers"]["operator"]["delivered"] == city["readers"]["citizen app"]["delivered"] == 483


def test_a_customer_sees_the_flows_that_its_brokerage_has_paid_for_while_its_account_is_open() -> None:
    """Dissertation, 1.2.1: the exchange grants flows, a brokerage passes them on, accounts come and go."""
    ticker = played("ticker")
    shares, watched, derivative, commodity, _ = (one["event"] for one in ticker["close_up"])
    nameless = {"seller": None, "buyer": None}
    assert seen(ticker, 0, "Alice") == {**shares, **nameless} == seen(ticker, 0, "Carol")
    coarse = {"time": "2026-11-02T10:31:00Z", "price": 182.0, "shares": None}
    assert seen(ticker, 0, "Bob") == {**shares, **nameless, **coarse}
    assert seen(ticker, 0, "dealing desk") == shares
    assert seen(ticker, 2, "Alice") == {**derivative, **nameless}
    # Carol's brokerage grants every flow and has paid for shares; nobody has paid for commodities.
    assert [seen(ticker, 2, who) for who in ("Bob", "Carol")] == [None, None]
    assert commodity["seller"] == "Ashdown"
    assert ticker["close_up"][3]["seen"] == {}
    # The exchange's database releases trades of watched stocks; each investigator has one case.
    assert seen(ticker, 1, "investigator") == watched
    assert (watched["reason"], ticker["readers"]["investigator"]["delivered"]) == ("merger talks", 1)
    assert ticker["readers"]["Bob"]["ended"] == "POLICY-REVOKED"
    assert all(one["disclosed"] > one["delivered"] for one in ticker["readers"].values()), "probes, too"
    assert next(iter(ticker["refused"].values())) == "REFUSED-LOGIN"


@pytest.fixture(scope="module")
def homecare() -> dict:
    return played("homecare", "--spark")


def test_a_prescription_becomes_what_pharmacy_auditor_and_carer_may_see(homecare: dict) -> None:
    """OASIS'08, figure 4: stored and released in one transaction, although the connector was killed."""
    shown = [(one["by"], one["event"]["patient"]) for one in homecare["close_up"]]
    told = [
        (who, patient)
        for patient in ("Ann", "Bob", "Cas", "Ann", "Bob")
        for who in ("grey", "hospital database")
    ]
    assert shown == told
    for_ann, for_bob, for_cas, withdrawn, late = range(1, 10, 2)
    # At the hospital's border what was authorised becomes a Prescription for the pharmacy.
    prescription = seen(homecare, for_ann, "pharmacy")
    assert prescription.keys() == {"operation", "time", "doctor", "patient", "drug", "dose"}
    assert prescription.items() <= homecare["close_up"][for_ann]["event"].items()
    assert seen(homecare, for_bob, "pharmacy")["patient"] == "Bob"
    # Whom Dr Grey does not treat, or no longer, gets no prescription: the record of it alone.
    assert [seen(homecare, one, "pharmacy") for one in (for_cas, late)] == [None, None]
    assert [seen(homecare, one, "auditor")["treated"] for one in (for_cas, late)] == [False, False]
    # What is withdrawn is taken out of the pharmacy's own database, and makes no authorisation.
    assert seen(homecare, withdrawn, "pharmacy")["operation"] == "delete"
    assert seen(homecare, withdrawn, "auditor") is None
    audited = seen(homecare, for_ann, "auditor")
    assert (audited["prescriber"], audited["drug"], audited["treated"]) == ("Dr Grey", "morphine", True)
    assert len(audited["reference"]) == 32
    assert seen(homecare, for_bob, "auditor") is None, "amoxicillin is no controlled drug"
    places = [seen(homecare, which, "carer")["place"] for which in (0, 2, 4)]
    assert places == ["CB3", "CB4 1YG", "CB1"]
    tablet = [seen(homecare, which, "Dr Grey's tablet") is not None for which in (0, 2, 4, 8)]
    assert tablet == [True, True, False, False]


def test_the_log_of_homecare_shows_each_reader_what_it_received_unless_a_right_was_lost(
    homecare: dict,
) -> None:
    tables = {one["reader"]: one for one in homecare["tables"]}
    assert all(one["is_same"] for one in tables.values())
    assert {who for who, one in tables.items() if not one["is_as_received"]} == {"Dr Grey's tablet"}
    # What she saw of Bob's while she treated him is not in her table any more.
    assert 0 < tables["Dr Grey's tablet"]["rows"] < homecare["readers"]["Dr Grey's tablet"]["delivered"]
    auditor = tables["auditor"]
    assert (auditor["application"], auditor["results_same"]) == ("prescription-audit", True)
    assert auditor["results"] > 20
