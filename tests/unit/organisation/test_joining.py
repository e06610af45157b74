"""What an organisation's folder holds after it joined a network, and what a renewal changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.clock import system_now
from maia.keystore.key_files import public_half
from maia.organisation import Organisation
from maia.organisation.joining import WouldLeave
from maia.organisation.losses import is_membership
from maia.profile import read_profile
from maia.profile.address_book import load_book
from maia.types import verify_definition


@pytest.fixture
def ports(tmp_path: Path) -> tuple[Organisation, Organisation]:
    """Rotterdam has a type and a member before it joins Hamburg's network."""
    hamburg, rotterdam = (Organisation.create(tmp_path / name) for name in ("hamburg", "rotterdam"))
    rotterdam.define("ShipMovement", ship="string", sealed=True)
    rotterdam.add_member("pilot", may="publish:ShipMovement")
    return hamburg, rotterdam


def installable(hamburg: Organisation, rotterdam: Organisation) -> list[str]:
    """Return which types of Rotterdam's pilot may be installed on Hamburg's network."""
    profile = read_profile(rotterdam.folder / "pilot.maia")
    found = [
        verify_definition(one, at=system_now(), network=hamburg.network) for one in profile.definitions()
    ]
    assert {one.id for one in found} <= {one.id for one in rotterdam.definitions()}
    return sorted(one.name.name for one in found)


def test_types_from_before_and_after_embed_the_right_to_install(
    ports: tuple[Organisation, Organisation], tmp_path: Path
) -> None:
    """F1: also a topic, a later version, and what a renewed invitation brings."""
    hamburg, rotterdam = ports
    joined = rotterdam.join(hamburg.invite(rotterdam.principal).save(tmp_path / "rotterdam.invite"))
    assert joined.notes == ()
    assert installable(hamburg, rotterdam) == ["ShipMovement"]
    rotterdam.define("Notice", text="string")
    rotterdam.change(rotterdam.event_type("Notice").definition, [])
    rotterdam.add_member("pilot", may="publish:Notice")
    assert installable(hamburg, rotterdam) == ["Notice", "Notice", "ShipMovement"]
    before = {one.id for one in rotterdam.definitions()}
    renewed = hamburg.invite(rotterdam.principal, days=800)
    rotterdam.join(renewed.save(tmp_path / "renewed.invite"))
    assert installable(hamburg, rotterdam) == ["Notice", "Notice", "ShipMovement"]
    assert before.isdisjoint(one.id for one in rotterdam.definitions())


def test_a_grant_within_the_network_changes_nothing_about_it(
    ports: tuple[Organisation, Organisation], tmp_path: Path
) -> None:
    """F7: no certificate, no address and no setting of the network, in neither order of the two grants."""
    hamburg, rotterdam = ports
    customs = Organisation.create(tmp_path / "customs")
    rotterdam.join(hamburg.invite(rotterdam.principal).save(tmp_path / "rotterdam.invite"))
    customs.join(hamburg.invite(customs.principal).save(tmp_path / "customs.invite"))
    before = (customs.network, customs.joined_through, (customs.folder / "broker.generated.toml").read_text())
    grant = rotterdam.grant(customs.principal, may="subscribe:ShipMovement", delegable=True)
    joined = customs.join(grant.save(tmp_path / "customs.grant"))
    assert (joined.left, joined.offer.invites, joined.offer.types) == (None, False, ("ShipMovement",))
    assert before == (
        customs.network, customs.joined_through, (customs.folder / "broker.generated.toml").read_text()
    )  # fmt: skip
    assert hamburg.invited().keys() == {rotterdam.principal, customs.principal}


def test_a_check_says_what_would_change_and_changes_nothing(
    ports: tuple[Organisation, Organisation], tmp_path: Path
) -> None:
    hamburg, rotterdam = ports
    file = hamburg.invite(rotterdam.principal).save(tmp_path / "rotterdam.invite")
    before = {one: one.read_bytes() for one in rotterdam.folder.rglob("*") if one.is_file()}
    would = rotterdam.join(file, is_check=True)
    assert would.files > 5
    assert before == {one: one.read_bytes() for one in rotterdam.folder.rglob("*") if one.is_file()}
    assert rotterdam.network.owner == rotterdam.principal


def test_a_grant_from_before_its_issuer_joined_is_refused_with_both_ways_out(
    ports: tuple[Organisation, Organisation], tmp_path: Path
) -> None:
    hamburg, rotterdam = ports
    customs = Organisation.create(tmp_path / "customs")
    early = rotterdam.grant(customs.principal, may="subscribe:ShipMovement").save(tmp_path / "early.grant")
    with pytest.raises(WouldLeave, match="what `rotterdam` has granted it then grants again"):
        rotterdam.join(hamburg.invite(rotterdam.principal).save(tmp_path / "rotterdam.invite"))
    rotterdam.join(tmp_path / "rotterdam.invite", leave=True)
    customs.join(hamburg.invite(customs.principal).save(tmp_path / "customs.invite"))
    with pytest.raises(WouldLeave, match=r"`--leave` does so; to stay, have `ed25519:.*` join first and"):
        customs.join(early)
    later = rotterdam.grant(customs.principal, may="subscribe:ShipMovement").save(tmp_path / "later.grant")
    assert customs.join(later).offer.types == ("ShipMovement",)


def test_a_type_that_its_owner_has_not_brought_along_is_named_with_its_owner_and_the_cure(
    ports: tuple[Organisation, Organisation], tmp_path: Path
) -> None:
    """Customs followed Rotterdam's grant first, and goes over to Hamburg's network."""
    hamburg, rotterdam = ports
    customs = Organisation.create(tmp_path / "customs")
    early = rotterdam.grant(customs.principal, may="subscribe:ShipMovement").save(tmp_path / "early.grant")
    customs.join(early)
    with pytest.raises(WouldLeave, match=r"ends each membership by an invitation of `rotterdam` \(1\)"):
        rotterdam.join(hamburg.invite(rotterdam.principal).save(tmp_path / "rotterdam.invite"))
    moved = customs.join(hamburg.invite(customs.principal).save(tmp_path / "customs.invite"), leave=True)
    assert moved.notes == (
        f"`ShipMovement` of `{rotterdam.principal}` cannot be used in `hamburg`: it holds no right to be "
        "installed there; have its owner join `hamburg` and grant again, which brings it",
    )
    rotterdam.join(tmp_path / "rotterdam.invite", leave=True)
    again = rotterdam.grant(customs.principal, may="subscribe:ShipMovement").save(tmp_path / "again.grant")
    assert customs.join(again).notes == ()


def test_a_right_that_rests_on_another_is_found_with_it(
    ports: tuple[Organisation, Organisation], tmp_path: Path
) -> None:
    """A member's right is shown with the grant that it rests on, and none of its own types."""
    hamburg, rotterdam = ports
    hamburg.define("Manifest", ship="string")
    grant = hamburg.grant(rotterdam.principal, may="subscribe:Manifest", delegable=True)
    rotterdam.join(grant.save(tmp_path / "rotterdam.grant"))
    pilot = rotterdam.add_member("pilot", may="subscribe:Manifest")
    by_issuer = {
        one.certificate.authority.resources.owner: [
            below.certificate.issuer for below in rotterdam.rests_on(one)
        ]
        for one in rotterdam.issued_to(pilot.principal())
        if not is_membership(one)
    }
    assert by_issuer == {rotterdam.principal: [], hamburg.principal: [hamburg.principal]}


def test_a_profile_that_was_put_aside_is_no_member_and_has_no_name(
    ports: tuple[Organisation, Organisation],
) -> None:
    """Its key is in the file of another name: where members are listed, and at the console, it is not."""
    _, rotterdam = ports
    old = public_half(rotterdam.folder / "pilot.maia" / "pilot.key")
    (rotterdam.folder / "pilot.maia").rename(rotterdam.folder / "pilot-before.maia")
    new = rotterdam.add_member("pilot", may="publish:ShipMovement")
    assert [one.name for one in rotterdam.members()] == ["pilot"]
    book = load_book([rotterdam.folder], own=rotterdam.folder / "none", at=system_now())
    assert book.shown(str(old)) == str(old)
    assert book.shown(new.principal()).startswith("pilot (")
    assert len(rotterdam.losses(rotterdam.folder / "pilot-before.maia").lost) == 2
