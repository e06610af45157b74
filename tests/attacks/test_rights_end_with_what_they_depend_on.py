"""What something depends on is lost: it ends, in every domain, and nothing else does."""

from __future__ import annotations

from maia.credentials.chains.reduction import BrokenChain
from maia.credentials.statements import CertificateRevoked, StatementOld
from maia.domain.access.results import Revoked
from maia.policy import Permit
from maia.testing.refusals import raises
from maia.validity import Monitor
from support.access_control import (
    BROWN,
    MET,
    NUMBERPLATE,
    PITO,
    POLICY,
    SECOND,
    SMITH,
    Station,
    broker,
    check_consistent,
    court,
    granted,
    later,
    met,
    order,
    told,
    verdict,
)
from support.policy import key

BORDER = key(60)
PLATE = "AE05 XYZ"

BORDER_POLICY = f"""
policy "Border Force"
key met = {MET.principal}
role tracker(plate: string) of met named np_tracker
role guest_tracker(plate: string)
rule guest_tracker(plate)
    while tracker(plate)
    until tracker ends
grant guest_tracker(plate)
    may subscribe to Numberplate(timestamp, numberplate)
    where numberplate == $plate
type Numberplate = uk.gov.pito.Numberplate
end
"""


def border(text: str = BORDER_POLICY) -> Station:
    """A third domain, which lets in a peer that the Met calls a tracker."""
    station = Station(BORDER)
    station.register_type(NUMBERPLATE.signed)
    station.hold([granted(PITO, BORDER, "subscribe", may_delegate=True)])
    station.load_policy(text)
    return station


def everybody_at(now, *stations: Station) -> None:
    """All clocks agree, every list is out, and every domain has received all of them."""
    for station in stations:
        station.now = now
    for station in stations:
        told(station, *(other for other in stations if other is not station))


def test_an_order_taken_back_in_one_domain_ends_rights_in_the_third():
    """A40: court -> Met -> Border Force, each hearing only the statements of those it depends on."""
    courts, station, third = court(), met(), border()
    everybody_at(station.now, courts, station, third)
    shown = order(courts, SMITH, "42", PLATE)
    wallet = station.login(SMITH.principal, [shown])
    tracker = next(one for one in wallet.memberships if one.membership.role == "np_tracker")
    guest = third.login(SMITH.principal, [tracker.certificate])
    assert [one.membership.role for one in guest.memberships] == ["guest_tracker"]
    verifier = broker(station.now, station, third)
    assert isinstance(verdict(SMITH.principal, guest.chains, verifier, station.now), Permit)

    by_courts = courts.revoke_appointment(shown.id, "appeal")
    by_met = station.receive_statement(by_courts.statement)
    by_border = third.receive_statement(by_met.statement)
    assert [one.role for one in by_met.memberships] == ["np_tracker", "supervisor"]
    assert [one.role for one in by_border.memberships] == ["guest_tracker"]
    verifier.receive(by_met.statement, station.now)
    verifier.receive(by_border.statement, station.now)
    for certificates in (wallet.chains, guest.chains):
        assert not isinstance(verdict(SMITH.principal, certificates, verifier, station.now), Permit)
    for one in (courts, station, third):
        check_consistent(one)


def test_only_what_depended_on_the_order_falls_among_many():
    """A40: and only that."""
    courts, station = court(), met()
    told(station, courts)
    detectives = [key(70 + number) for number in range(8)]
    wallets, orders = {}, {}
    for detective in detectives:
        station.assert_fact("detective", [detective.principal])
        station.assert_fact("case_assignment", [detective.principal, "42"])
        orders[detective] = order(courts, detective, "42", PLATE)
        wallets[detective] = station.login(detective.principal, [orders[detective]])
    gone = station.receive_statement(courts.revoke_appointment(orders[detectives[3]].id, "appeal").statement)
    assert {one.principal for one in gone.memberships} == {detectives[3].principal}
    verifier = broker(station.now, station)
    for detective in detectives:
        decision = verdict(detective.principal, wallets[detective].chains, verifier, station.now)
        assert isinstance(decision, Permit) == (detective is not detectives[3])


def test_a_domain_that_receives_nothing_more_of_the_courts_lets_go_when_their_last_list_ends():
    """A39, A40, S17: withholding the courts' statements extends nothing, not by a microsecond."""
    courts, station = court(), met()
    told(station, courts)
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    station.now = later(29.999999)
    station.beat()
    assert len(station.memberships_of(SMITH.principal, station.now).rows) == 3
    assert station.access.next_due(station.now) == later(30)
    station.now = later(30)
    verifier = Monitor()
    for signed in station.beat():
        verifier.receive(signed, station.now)
    left = station.memberships_of(SMITH.principal, station.now).rows
    assert [one.membership.role for one in left] == ["detective_on_duty"]
    for right in wallet.issued:
        assert isinstance(verifier.check(right.certificate, station.now), CertificateRevoked)
    check_consistent(station)
    told(station, courts)
    assert len(station.login(SMITH.principal, []).issued) == 2


def test_an_old_statement_of_the_courts_brings_nothing_back():
    """A39: replay, after a restart too."""
    courts, station = court(), met()
    told(station, courts)
    before = courts.current_statements(courts.now)
    shown = order(courts, SMITH, "42", PLATE)
    station.login(SMITH.principal, [shown])
    station.receive_statement(courts.revoke_appointment(shown.id, "appeal").statement)
    for again in (station, station.restarted()):
        for statement in before:
            try:
                assert again.receive_statement(statement) == Revoked()
            except StatementOld:
                continue
        with raises("REFUSED-ACTIVATION"):
            again.activate(SMITH.principal, "np_tracker", None, [shown])


def test_statements_of_strangers_are_not_kept():
    """A40: a peer that depends on no peer cannot be filled with the statements of every peer."""
    station = met()
    stranger = Station(BROWN)
    for statement in stranger.access.due(station.now):
        assert station.receive_statement(statement) == Revoked()
    assert station.access.received_statements(BROWN.principal, station.now) == ()
    assert BROWN.principal not in station.access.issuers_followed(station.now)
    assert court().key.principal in station.access.issuers_followed(station.now)


def test_a_subscriber_who_was_away_finds_its_right_revoked_on_its_return():
    """A36: the list without period was missed, the domain was restarted, and days have passed."""
    courts, station = court(), met()
    told(station, courts)
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE, days=30)])
    sleepy = broker(station.now, station)
    station.retract_fact("case_assignment", [SMITH.principal, "42"])
    station = station.restarted()
    right = wallet.issued[0].certificate
    for hours in (1, 5, 11):
        station.now = later(3600 * hours)
        station.beat()
    assert right.certificate.validity.contains(station.now)
    assert isinstance(sleepy.check(right, station.now), BrokenChain), "stale before it hears anything"
    for statement in station.current_statements(station.now):
        sleepy.receive(statement, station.now)
    assert isinstance(sleepy.check(right, station.now), CertificateRevoked)


def test_a_right_that_was_revoked_is_not_brought_back_by_a_new_one_that_says_the_same():
    """A36: the second certificate is another one, also within the same second."""
    courts, station = court(), met()
    told(station, courts)
    shown = [order(courts, SMITH, "42", PLATE)]
    first = station.login(SMITH.principal, shown)
    station.retract_fact("detective", [SMITH.principal])
    station.assert_fact("detective", [SMITH.principal])
    second = station.login(SMITH.principal, shown)
    verifier = broker(station.now, station)
    assert not isinstance(verdict(SMITH.principal, first.chains, verifier, station.now), Permit)
    assert isinstance(verdict(SMITH.principal, second.chains, verifier, station.now), Permit)


def test_removing_one_of_several_rules_keeps_what_the_others_gave():
    """A41: two ways into a role; the one that goes takes its own rights alone."""
    two_ways = POLICY.replace(
        "rule supervisor(plate)",
        """rule np_tracker(plate)
    while court_order(_, plate)
    while detective(holder)
    for 1 hour

rule supervisor(plate)""",
    )
    courts, station = court(), met(policy=two_ways)
    told(station, courts)
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    trackers = [one for one in wallet.memberships if one.membership.role == "np_tracker"]
    assert len(trackers) == 2
    gone = station.load_policy(POLICY).revoked
    assert sorted(one.role for one in gone.memberships) == ["np_tracker", "supervisor"]
    left = station.memberships_of(SMITH.principal, station.now).rows
    assert sorted(one.membership.role for one in left) == ["detective_on_duty", "np_tracker", "supervisor"]
    verifier = broker(station.now, station)
    assert isinstance(verdict(SMITH.principal, wallet.chains, verifier, station.now), Permit)


def test_a_restart_keeps_revocations_numbers_and_the_policy():
    """A82."""
    courts, station = court(), met()
    told(station, courts)
    shown = order(courts, SMITH, "42", PLATE)
    wallet = station.login(SMITH.principal, [shown])
    station.beat()
    gone = station.retract_fact("detective", [SMITH.principal])
    before = (
        station.policy(),
        station.audit_head(),
        station.register().rows,
        station.rights_of(SMITH.principal).rows,
        station.current_statements(station.now),
        station.facts("case_assignment").rows,
        station.access.received_statements(courts.key.principal, station.now),
    )
    again = station.restarted()
    after = (
        again.policy(),
        again.audit_head(),
        again.register().rows,
        again.rights_of(SMITH.principal).rows,
        again.current_statements(again.now),
        again.facts("case_assignment").rows,
        again.access.received_statements(courts.key.principal, again.now),
    )
    assert after == before
    again.now = later(26)
    (signed,) = again.beat()
    assert signed.statement.sequence == gone.statement.statement.sequence + 1
    assert set(gone.ids) == signed.statement.revoked
    verifier = broker(again.now, again)
    assert not isinstance(verdict(SMITH.principal, wallet.chains, verifier, again.now), Permit)


def test_a_clock_set_back_gives_nothing_back():
    """A78: what was revoked stays revoked, and no number is used twice."""
    courts, station = court(), met()
    station.now = courts.now = later(3600)
    told(station, courts)
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    station.beat()
    gone = station.retract_fact("detective", [SMITH.principal])
    station.now = later(3600 - 1800)
    signed = station.beat()
    assert all(one.statement.sequence > gone.statement.statement.sequence for one in signed)
    newest = station.current_statements(station.now)[-1]
    assert set(gone.ids) <= newest.statement.revoked
    verifier = broker(station.now, station)
    assert not isinstance(verdict(SMITH.principal, wallet.chains, verifier, station.now), Permit)
    assert station.now % SECOND == 0


def test_a_period_that_was_seen_to_be_over_does_not_open_again_after_a_restart_with_an_earlier_clock():
    """A78, A82: the courts fell silent, the Met was restarted, and its clock was set back."""
    courts, station = court(), met()
    told(station, courts)
    shown = order(courts, SMITH, "42", PLATE)
    station.login(SMITH.principal, [shown])
    station.now = later(31)
    station.beat()
    again = station.restarted()
    again.now = later(10)
    with raises("REFUSED-ACTIVATION"):
        again.activate(SMITH.principal, "np_tracker", None, [shown])


def test_a_peer_that_asks_again_for_what_it_has_fills_no_audit():
    """A84, A40: a login that changes nothing leaves nothing behind."""
    courts, station = court(), met()
    told(station, courts)
    station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    head = station.audit_head()
    for _ in range(3):
        station.login(SMITH.principal, [])
        station.login(BROWN.principal, [])
    assert station.audit_head() == head
