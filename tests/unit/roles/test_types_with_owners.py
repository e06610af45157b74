"""Two owners have a type of one name: a policy says which it means, wherever a type goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.events import Attribute, AttributeUid, Kind
from maia.organisation import Organisation
from maia.profile.type_names import NamedTypes
from maia.roles import BadPolicy, Policy, parse_policy
from maia.types import VerifiedType
from support.access_control import MET, POLICY, met
from support.policy import CCS, NUMBERPLATE, PITO, defined
from support.processes import maia

SHIP = Attribute("ship", AttributeUid("1"), Kind.STRING)
HAMBURG, ROTTERDAM, CUSTOMS = PITO, CCS, MET
TYPES = (
    defined(HAMBURG, "port.ShipMovement", [SHIP, Attribute("quay", AttributeUid("2"), Kind.STRING)]),
    defined(ROTTERDAM, "port.ShipMovement", [SHIP, Attribute("berth", AttributeUid("2"), Kind.INT)]),
    defined(ROTTERDAM, "port.Summary", [Attribute("ships", AttributeUid("1"), Kind.INT)]),
)
BODY = """
type Hamburgs = ShipMovement@hamburg
type Rotterdams = "port.ShipMovement@{rotterdam}"
fact on_duty(who: principal)
role clerk
role planner
rule clerk
    while on_duty(holder)
    for 1 day
rule planner
    while clerk
    for 1 hour
grant clerk
    may subscribe to Hamburgs(ship, quay)
grant clerk
    may subscribe to ShipMovement@{short}(berth)
grant planner
    may subscribe to port.ShipMovement@hamburg(*)
transform ShipMovement@hamburg for planner as Summary
    set ships := 1
restrict Rotterdams to clerk when on_duty(holder)
end
"""


def read(body: str, types: dict[str, VerifiedType] | None = None) -> Policy:
    known = NamedTypes(TYPES, own=CUSTOMS.principal) if types is None else types
    text = f'policy "Customs"\nkey hamburg = {HAMBURG.principal}\n{body}'
    return parse_policy(text, origin="customs", domain=CUSTOMS.principal, types=known)


def test_a_type_has_its_owner_wherever_a_type_goes() -> None:
    rotterdam, known = str(ROTTERDAM.principal), NamedTypes(TYPES, own=CUSTOMS.principal)
    text = BODY.format(rotterdam=rotterdam, short=rotterdam[:16])
    found = read(text, known)
    quays, berths = found.grants["clerk"]
    (summary,) = found.grants["planner"]
    assert [one.privilege.resource.owner for one in (quays, berths, summary)] == [
        HAMBURG.principal, ROTTERDAM.principal, HAMBURG.principal
    ]  # fmt: skip
    assert summary.privilege.transform is not None
    assert summary.privilege.transform.result == TYPES[2].name
    assert [len(one.premises) for one in (quays, berths)] == [0, 1], "each grant is restricted by itself"
    # What is remembered of a reading is enough to read the text again, as it was (A42).
    again = read(text, dict(known))
    assert [one.id for one in again.grants["clerk"]] == [quays.id, berths.id]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("type S = ShipMovement", "`ShipMovement` means 2 types here: say which of port.ShipM"),
        ("type S = Summary@hamburg", "there is no type `Summary@ed25519:"),
        ("type S = ShipMovement@bremen", "there is no type `ShipMovement@bremen`; there are port.ShipM"),
    ],
)  # fmt: skip
def test_a_word_that_means_several_types_or_none_is_refused_once(body: str, said: str) -> None:
    with pytest.raises(BadPolicy) as refusal:
        read(f"{body}\nrole clerk\ngrant clerk\n    may subscribe to S(ship)\nend\n")
    (problem,) = refusal.value.problems
    assert said in problem.sentence
    assert problem.line == 3


def test_a_domain_reads_it_again_as_it_was(tmp_path: Path) -> None:
    """The names of owners are read once: a name that means another key later changes nothing in force."""
    station = met()
    station.register_type(defined(CCS, NUMBERPLATE.name.name, NUMBERPLATE.attributes).signed)
    text = POLICY.replace("= uk.gov.pito.Numberplate", f"= Numberplate@{str(PITO.principal)[:20]}")
    loaded = station.load_policy(text)
    assert not loaded.revoked.ids
    again = station.restarted()
    assert again.policy().digest == loaded.digest
    assert again.load_policy(text).is_unchanged


def test_the_command_line_knows_owners_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    ports = [Organisation.create(tmp_path / name) for name in ("hamburg", "rotterdam")]
    for port in ports:
        port.define("ShipMovement", ship="string")
    grant = "role clerk\ngrant clerk\n    may subscribe to {}(ship)\nend\n"
    (tmp_path / "good.policy").write_text('policy "P"\n' + grant.format("ShipMovement@hamburg"))
    (tmp_path / "bad.policy").write_text('policy "P"\n' + grant.format("ShipMovement"))
    check = ("domain", "policy", "check", "--types", "hamburg/types", "--types", "rotterdam/types")
    assert "can be put in force" in maia(*check, "good.policy", cwd=tmp_path).stdout
    refused = maia(*check, "bad.policy", cwd=tmp_path)
    said = "`ShipMovement` means 2 types here: say which of ShipMovement@hamburg, ShipMovement@rotterdam"
    assert said in refused.stderr
