"""What an organisation issued ends one day; before that it is renewed, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from maia.config.input_files import read_certificates
from maia.credentials import Action, AuthorisationCertificate, SignedCertificate
from maia.events import SECOND, Instant
from maia.organisation import Organisation
from maia.organisation.grant_file import Grant
from maia.policy.endings import Ending

DAY = 86_400 * SECOND
NOW = Instant.parse("2026-11-16T12:00:00Z")
OnDay = Callable[[float], None]


@pytest.fixture
def on_day(monkeypatch: pytest.MonkeyPatch) -> OnDay:
    """Set the clock of organisations."""

    def set_to(day: float) -> None:
        now = Instant(NOW + int(day * DAY))
        for room in ("organisation.organisation", "organisation.joining", "profile.profile"):
            monkeypatch.setattr(f"maia.{room}.system_now", lambda: now, raising=False)

    set_to(0)
    return set_to


@pytest.fixture
def hospital(tmp_path: Path, on_day: OnDay) -> Organisation:
    """A hospital whose lab publishes for 90 days and whose guest reads for 7."""
    made = Organisation.create(tmp_path / "hospital")
    made.define("LabResult", "ward:string", "value:int")
    made.add_member("lab", may="publish:LabResult", where='ward == "3"')
    made.add_member("guest", may="subscribe:LabResult", days=7)
    return made


def ends_of(folder: Path, *actions: Action) -> list[float]:
    """Return on which days rights to these actions end that lie in a folder."""
    found = [one.certificate for one in read_certificates([folder])]
    rights = [one for one in found if isinstance(one, AuthorisationCertificate)]
    ends = [one.validity.not_after for one in rights if one.authority.actions == frozenset(actions)]
    return sorted((end - NOW) / DAY for end in ends if end is not None)


def granted(signed: SignedCertificate) -> tuple[object, ...]:
    said = signed.certificate
    assert isinstance(said, AuthorisationCertificate)
    return said.issuer, said.subject, said.authority, said.may_delegate, said.validity.tests


def test_what_ends_soon_is_renewed_for_as_long_as_it_held_where_it_lies(
    hospital: Organisation, on_day: OnDay
) -> None:
    certs = hospital.folder / "lab.maia" / "certs"
    on_day(80)
    (due,) = hospital.ends()
    assert due.right == "publish:LabResult"
    (done,) = hospital.renew().renewed
    assert (done.until - NOW) / DAY == 170
    assert ends_of(certs, Action.PUBLISH) == [90, 170]
    assert ends_of(hospital.folder / "issued", Action.PUBLISH) == [90, 170]
    held = [one for one in read_certificates([certs]) if Ending(NOW, one).right == due.right]
    assert len({granted(one) for one in held}) == 1
    assert len(held) == 2
    assert not hospital.ends()
    assert not hospital.renew().renewed


def test_a_dry_run_says_what_would_be_renewed_and_changes_nothing(
    hospital: Organisation, on_day: OnDay
) -> None:
    on_day(80)
    before = sorted(hospital.folder.rglob("*.cert"))
    (one,) = hospital.renew(is_check=True).renewed
    assert one.ending.right == "publish:LabResult"
    assert sorted(hospital.folder.rglob("*.cert")) == before


def test_what_was_given_for_some_days_is_renewed_in_its_last_quarter_or_if_so_many_days_are_asked_for(
    hospital: Organisation, on_day: OnDay
) -> None:
    on_day(1)
    assert not hospital.renew(is_check=True).renewed
    assert [one.ending.right for one in hospital.renew(days=10, is_check=True).renewed] == [
        "subscribe:LabResult"
    ]
    on_day(6)
    assert len(hospital.renew(is_check=True).renewed) == 1
    on_day(8)  # it was left to end
    assert not hospital.renew(days=10, is_check=True).renewed


def test_only_those_are_renewed_that_are_named(hospital: Organisation, on_day: OnDay) -> None:
    on_day(6)
    assert not hospital.renew(whom=["lab"]).renewed
    assert len(hospital.renew(whom=["guest"]).renewed) == 1


def test_a_year_later_brokers_and_members_connect_still(hospital: Organisation, on_day: OnDay) -> None:
    on_day(355)
    hospital.renew()
    for place in ("broker-certs", "lab.maia/certs"):
        found = read_certificates([hospital.folder / place / "connect.cert"])
        assert [(one.certificate.validity.not_after - NOW) / DAY for one in found] == [355 + 365]


def test_a_partner_is_handed_what_was_renewed_and_is_told_of_what_it_has_to_ask_for(
    hospital: Organisation, on_day: OnDay, tmp_path: Path
) -> None:
    institute = Organisation.create(tmp_path / "institute")
    hospital.grant(institute.principal, may="subscribe:LabResult", delegable=True).save(tmp_path / "a.grant")
    institute.join(tmp_path / "a.grant")
    on_day(80)
    assert [(one.right, one.signed.certificate.issuer) for one in institute.renew().others] == [
        ("subscribe:LabResult", hospital.principal)
    ]
    (grant,) = hospital.renew().grants
    assert isinstance(grant, Grant)
    grant.save(tmp_path / "b.grant")
    institute.join(tmp_path / "b.grant")
    assert ends_of(institute.folder / "certs", Action.SUBSCRIBE) == [90, 170]
    assert not institute.ends()


def test_a_key_that_was_revoked_is_renewed_nothing(hospital: Organisation, on_day: OnDay) -> None:
    on_day(80)
    (hospital.folder / "revoked").mkdir(mode=0o700)
    (hospital.folder / "revoked" / "lab.pub").write_text(f"{hospital.members()[-1].principal()}\n")
    assert not hospital.renew().renewed
