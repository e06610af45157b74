"""An organisation says which keys are its brokers: the first one's, its processes', those that were added."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from maia.config.input_files import read_certificates
from maia.credentials import Action, SignedCertificate, TestKind
from maia.credentials.brokers import AS_BROKER, made_by, makes_broker
from maia.credentials.keys import Principal
from maia.keystore.key_files import public_half
from maia.organisation import Organisation
from maia.testing.refusals import raises


def brokers(place: Path) -> set[Principal]:
    """Return the keys that certificates in a folder make brokers."""
    return {one.certificate.subject for one in read_certificates([place]) if makes_broker(one)}


@pytest.mark.parametrize("processes", [1, 3])
def test_its_broker_and_each_of_its_processes_are_made_brokers(tmp_path, processes):
    ours = Organisation.create(tmp_path / "hospital", processes=processes)
    keys = sorted(ours.folder.glob("broker-data/process-*/process.key"))
    assert len(keys) == (processes if processes > 1 else 0)
    assert brokers(ours.folder / "broker-certs") == {
        public_half(one) for one in (ours.folder / "broker.key", *keys)
    }
    for one in read_certificates([ours.folder / "broker-certs"]):
        assert made_by(one.certificate.subject, [one]) == {ours.principal}


def test_a_broker_is_added_with_the_rights_of_the_first_one_and_members_know_it(tmp_path):
    ours = Organisation.create(tmp_path / "hospital")
    ours.define("LabResult", "ward:string")
    lab = ours.add_member("lab", may="publish:LabResult")
    made = ours.add_broker("north", listen="127.0.0.1:7411")
    certs = ours.folder / "north-certs"
    assert brokers(certs) == {made.principal} == {public_half(ours.folder / "north.key")}
    ours.add_member("desk", may="subscribe:LabResult")  # what comes later reaches both
    both = [ours.folder / "broker-certs", certs]
    of_types = [sorted(one.name for one in place.glob("*-*.cert")) for place in both]
    assert of_types[0] == of_types[1]
    assert len(of_types[0]) == 2
    settings = tomllib.loads((ours.folder / "north.generated.toml").read_text())
    assert (settings["listen"], settings["join"]) == ("127.0.0.1:7411", [ours.addresses["broker"]])
    for member in (lab.path, ours.folder / "desk.maia"):
        profile = tomllib.loads((member / "profile.toml").read_text())
        assert profile["brokers"] == [ours.addresses["broker"], "127.0.0.1:7411"]


@pytest.fixture
def revoked(monkeypatch) -> list[SignedCertificate]:
    """Return what is revoked from now on, without a server."""
    ended: list[SignedCertificate] = []
    monkeypatch.setattr(Organisation, "_revoke", lambda _self, given, _reason: ended.extend(given))
    return ended


@pytest.mark.parametrize("processes", [1, 3])
def test_what_makes_a_broker_names_the_organisations_lists_and_waits_for_none(tmp_path, processes):
    ours = Organisation.create(tmp_path / "hospital", processes=processes)
    old = next(iter(read_certificates([ours.folder / "broker-certs" / "connect.cert"])))
    (test,) = old.certificate.validity.tests
    assert (test.kind, test.by) == (TestKind.FOLLOWED_CRL, ours.principal)
    assert test.locations == (f"https://{ours.addresses['server']}/v1/statements",)


def test_a_broker_that_is_removed_leaves_profiles_and_settings_and_its_key_is_given_nothing(
    tmp_path, revoked
):
    ours = Organisation.create(tmp_path / "hospital")
    ours.define("LabResult", "ward:string")
    lab = ours.add_member("lab", may="publish:LabResult")
    key = ours.add_broker("north").principal
    ours.remove_broker("north", reason="replaced")
    assert {one.certificate.subject for one in revoked} == {key}
    assert {frozenset(one.certificate.authority.actions) for one in revoked} >= {
        AS_BROKER,
        frozenset({Action.PUBLISH}),
    }
    assert key in ours.revoked_keys()
    assert list(ours.folder.glob("north*")) == []
    profile = tomllib.loads((lab.path / "profile.toml").read_text())
    assert profile["brokers"] == [ours.addresses["broker"]]
    ours.prepare_servers()  # as `maia up` does, and nothing is given to the key
    with raises("REFUSED-KEY-REVOKED"):
        ours.grant(key, may="subscribe:LabResult")
    assert ours.add_broker("north").principal != key


@pytest.mark.parametrize("processes", [1, 3])
def test_the_first_broker_that_is_revoked_goes_on_with_other_keys_and_the_same_rights(
    tmp_path, revoked, processes
):
    ours = Organisation.create(tmp_path / "hospital", processes=processes)
    ours.define("LabResult", "ward:string")
    ours.add_member("lab", may="publish:LabResult")
    certs = ours.folder / "broker-certs"
    before, rights = brokers(certs), sorted(one.name for one in certs.glob("*-*.cert"))
    ours.remove_broker("broker")
    after = brokers(certs)
    assert len(after) == len(before)
    assert not before & after
    assert public_half(ours.folder / "broker.key") in after
    assert sorted(one.name for one in certs.glob("*-*.cert")) == rights
    assert {one.certificate.subject for one in revoked} == before


def test_only_a_broker_of_the_organisation_can_be_removed(tmp_path):
    ours = Organisation.create(tmp_path / "hospital")
    with raises("INPUT-ORGANISATION", match="it has broker"):
        ours.remove_broker("hospital")


@pytest.mark.parametrize("name", ["broker", "hospital", "north"])
def test_no_key_is_replaced_by_that_of_a_new_broker(tmp_path, name):
    ours = Organisation.create(tmp_path / "hospital")
    ours.add_broker("north")
    with raises("INPUT-ORGANISATION"):
        ours.add_broker(name)


def test_brokers_that_were_added_change_the_network_with_their_organisation(tmp_path):
    ours, other = (Organisation.create(tmp_path / one) for one in ("hospital", "institute"))
    other.add_broker("north")
    ours.invite(other.principal).save(tmp_path / "institute.invite")
    other.join(tmp_path / "institute.invite", leave=True)
    for certs in ("broker-certs", "north-certs"):
        (made,) = [one for one in read_certificates([other.folder / certs]) if makes_broker(one)]
        assert made.certificate.authority.resources.owner == ours.principal
    assert tomllib.loads((other.folder / "north.generated.toml").read_text())["network"] == "hospital"
