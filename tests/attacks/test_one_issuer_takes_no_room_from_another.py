"""Insiders, whom a verifier has reasons to hear, say as much as they can: the others are accepted too."""

from __future__ import annotations

from hashlib import sha256

import pytest

from maia.credentials import (
    CertificateRevoked,
    FactList,
    Revalidation,
    RevocationList,
    SigningKey,
    period_from,
    sign_statement,
)
from maia.testing.refusals import error_code, raises
from maia.validity import Monitor
from maia.validity import series as standing_room
from support.statements import ISSUER, SECOND, certificate, crl, moment

ROOM = 320
FEW = tuple(SigningKey.from_seed(bytes([200 + number]) * 32) for number in range(5))
GRANTED = [certificate(comment=f"right {number}") for number in range(ROOM // standing_room.SHARES_MIN)]


@pytest.fixture(autouse=True)
def _a_small_room(monkeypatch):
    monkeypatch.setattr(standing_room, "IDS_KEPT_MAX", ROOM)
    monkeypatch.setattr(standing_room, "IDS_OF_ONE_MAX", ROOM // 4)


def flood(standing, *insiders):
    """Let each say, period after period, as much as the verifier takes in."""
    refused = 0
    for insider in insiders:
        for number in range(1, 60):
            ids = frozenset(sha256(f"{number} {one}".encode()).digest() for one in range(20))
            period = period_from(moment(number * 30), microseconds=30 * SECOND)
            said = sign_statement(RevocationList(insider.principal, number, period, ids), insider)
            refused += error_code(standing.receive(said, moment(0)).refused) == "UNAVAILABLE-STANDING-FULL"
    assert refused, "the verifier is full"


@pytest.mark.parametrize("insiders", [FEW[:1], FEW])
def test_insiders_that_fill_a_verifier_put_off_no_revocation_of_an_issuer_it_knows(insiders):
    """A39: what the insiders say must not let a right of another peer outlive its revocation."""
    standing = Monitor()
    standing.receive(crl(1, by=ISSUER), moment(0))
    flood(standing, *insiders)
    for number, _ in enumerate(GRANTED, start=1):
        standing.receive(crl(number + 1, *GRANTED[:number], by=ISSUER), moment(0))
    assert all(isinstance(standing.check(one, moment(0)), CertificateRevoked) for one in GRANTED)


@pytest.mark.parametrize("insiders", [FEW[:1], FEW])
def test_insiders_that_fill_a_verifier_put_off_no_revocation_of_an_issuer_it_has_yet_to_hear(insiders):
    """A39: the first list of an issuer counts as much as the next one."""
    standing = Monitor()
    flood(standing, *insiders)
    assert standing.receive(crl(1, *GRANTED, by=ISSUER), moment(0)).revoked == {one.id for one in GRANTED}


def test_one_insider_leaves_room_beyond_the_shares():
    """A39: an issuer with many revocations has more than its share while only one insider is greedy."""
    standing, many = Monitor(), [certificate(comment=f"of many {number}") for number in range(60)]
    flood(standing, FEW[0])
    assert len(standing.receive(crl(1, *many, by=ISSUER), moment(0)).revoked) == len(many)


def test_what_is_held_stays_bounded_whatever_is_said():
    """A39: shares are no way around the bound."""
    standing = Monitor()
    flood(standing, *FEW)
    kept = sum(
        len(signed.statement.revoked) for one in standing for signed in standing.statements(one, moment(0))
    )
    assert kept <= 2 * ROOM


def test_a_verifier_that_was_full_comes_back_with_all_it_knew():
    """A39: a restart gives no insider's room to another, and loses nothing."""
    standing = Monitor()
    flood(standing, *FEW)
    standing.receive(crl(1, *GRANTED, by=ISSUER), moment(0))
    again = Monitor.reloaded(reversed(standing.exported()))
    assert again.revoked_by(ISSUER.principal) == standing.revoked_by(ISSUER.principal)
    assert set(again.exported()) == set(standing.exported())
    flood(again, SigningKey.from_seed(b"\x0e" * 32))


# ---------------------------------------------------------------- as many numberings as there are


PERIOD = period_from(moment(0), microseconds=30 * SECOND)


def everything_said_by(key):
    """Return one statement of each numbering that an issuer can use."""
    lists, valid = RevocationList(key.principal, 1, PERIOD, frozenset()), Revalidation
    return [
        sign_statement(said, key)
        for said in (
            lists,
            valid(key.principal, 1, PERIOD, frozenset()),
            FactList(key.principal, 1, PERIOD, {}),
        )
    ]


def test_issuers_that_use_every_numbering_push_out_no_peer_that_uses_one(monkeypatch):
    """A39: there is room for so many issuers, whatever kinds of statements the first of them are fond of."""
    monkeypatch.setattr(standing_room, "ISSUERS_MAX", len(FEW) + 1)
    standing = Monitor()
    for insider in FEW:
        for said in everything_said_by(insider):
            standing.receive(said, moment(0))
    assert standing.receive(crl(1, GRANTED[0], by=ISSUER), moment(0)).revoked == {GRANTED[0].id}


def test_a_peer_that_was_received_once_is_accepted_in_all_its_numberings_though_no_issuer_finds_room_any_more(
    monkeypatch,
):
    """A39: a domain whose lists are accepted can still confirm its rights, and state its facts."""
    monkeypatch.setattr(standing_room, "ISSUERS_MAX", len(FEW) + 1)
    standing, (first, *later) = Monitor(), everything_said_by(ISSUER)
    standing.receive(first, moment(0))
    for insider in FEW:
        standing.receive(everything_said_by(insider)[0], moment(0))
    assert (
        error_code(standing.receive(crl(1, by=SigningKey.from_seed(b"\x0e" * 32)), moment(0)).refused)
        == "UNAVAILABLE-STANDING-FULL"
    )
    assert all(standing.receive(said, moment(0)).is_news for said in later)


def test_series_are_bounded_whatever_is_said_and_come_back_after_a_restart(monkeypatch):
    """A39: each issuer has one series of each kind, and there are only so many issuers."""
    monkeypatch.setattr(standing_room, "ISSUERS_MAX", len(FEW))
    standing = Monitor()
    for insider in (*FEW, ISSUER):
        for said in everything_said_by(insider):
            if insider is not ISSUER:
                standing.receive(said, moment(0))
                continue
            assert error_code(standing.receive(said, moment(0)).refused) == "UNAVAILABLE-STANDING-FULL"
    assert len(standing.exported()) == 3 * len(FEW)
    again = Monitor.reloaded(reversed(standing.exported()))
    assert set(again.exported()) == set(standing.exported())


def test_a_verifier_that_has_less_room_than_it_had_does_not_start_with_a_part(monkeypatch):
    """A39: to leave out an issuer would be to forget what it has revoked."""
    standing = Monitor()
    for insider in FEW:
        standing.receive(everything_said_by(insider)[0], moment(0))
    monkeypatch.setattr(standing_room, "ISSUERS_MAX", len(FEW) - 1)
    with raises("UNAVAILABLE-STANDING-FULL"):
        Monitor.reloaded(standing.exported())
