"""Two issuers, one of whom lies, or counts no more: each has a say over its own certificates alone."""

from __future__ import annotations

import pytest

from maia.credentials.statements import RevocationList, sign_statement
from maia.policy import Permit
from support.access_control import (
    DAY,
    POLICY,
    SMITH,
    Station,
    broker,
    check_consistent,
    court,
    met,
    order,
    told,
    until,
    verdict,
)
from support.policy import key

COUNCIL = key(61)
PLATE = "AE05 XYZ"

TWO_ISSUERS = POLICY.replace(
    "appointment court_order(case: string, plate: string) by courts\n",
    f"key council = {COUNCIL.principal}\n"
    "appointment court_order(case: string, plate: string) by courts\n"
    "appointment licence(plate: string) by council, courts\n",
)
GRANT_ON_TWO = TWO_ISSUERS.replace(
    "rule np_tracker(plate)\n    while court_order", "rule np_tracker(plate)\n    given court_order"
).replace(
    "grant np_tracker(plate)\n",
    "grant np_tracker(plate)\n    while court_order(_, plate)\n    while licence(plate)\n",
)


def test_an_issuer_that_lists_the_certificate_of_another_ends_nothing():
    """A39, A40: the council, whose word counts for licences, says that the court's order is revoked."""
    courts, council, station = court(), Station(COUNCIL), met(policy=TWO_ISSUERS)
    told(station, courts, council)
    shown = order(courts, SMITH, "42", PLATE)
    wallet = station.login(SMITH.principal, [shown])
    lie = RevocationList(COUNCIL.principal, 99, None, frozenset({shown.id}))
    gone = station.receive_statement(sign_statement(lie, COUNCIL))
    assert not gone.memberships
    assert not gone.ids
    verifier = broker(station.now, station)
    assert isinstance(verdict(SMITH.principal, wallet.chains, verifier, station.now), Permit)
    truth = station.receive_statement(courts.revoke_appointment(shown.id, "appeal").statement)
    assert [one.role for one in truth.memberships] == ["np_tracker", "supervisor"]
    check_consistent(station)


def test_who_may_no_longer_give_orders_does_not_keep_one_because_it_may_still_license():
    """A41: each certificate behind a right is asked about by what the grant wants it for."""
    courts, council, station = court(), Station(COUNCIL), met(policy=GRANT_ON_TWO)
    told(station, courts, council)
    licence = council.appoint(SMITH.principal, "licence", [PLATE], until(DAY))
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE), licence])
    (right,) = (one for one in wallet.issued if "np_tracker" in one.rule)
    narrowed = GRANT_ON_TWO.replace("plate: string) by courts", "plate: string) by council")
    assert right.id in station.load_policy(narrowed).revoked.ids
    check_consistent(station)


@pytest.mark.parametrize("shape", ["plate: string", "case: string, plate: string"])
def test_two_appointments_that_are_called_the_same_do_not_replace_each_other(shape):
    """A41: the court may still license and not order, and both are called `court_order` in certificates."""
    licence = f"licence({shape}) by council, courts named court_order"
    policy = GRANT_ON_TWO.replace("licence(plate: string) by council, courts", licence)
    if "case" in shape:
        policy = policy.replace("while licence(plate)", "while licence(_, plate)")
    courts, council, station = court(), Station(COUNCIL), met(policy=policy)
    told(station, courts, council)
    parameters = ["7", PLATE] if "case" in shape else [PLATE]
    licensed = council.appoint(SMITH.principal, "court_order", parameters, until(DAY))
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE), licensed])
    (right,) = (one for one in wallet.issued if "np_tracker" in one.rule)
    renamed = policy.replace("licence(plate)", "licence( plate)").replace("licence(_,", "licence( _,")
    assert renamed != policy
    assert not station.load_policy(renamed).revoked.ids, "nothing was taken from anybody"
    narrowed = policy.replace(
        "court_order(case: string, plate: string) by courts",
        "court_order(case: string, plate: string) by council",
    )
    assert narrowed != policy
    assert right.id in station.load_policy(narrowed).revoked.ids
    check_consistent(station)
