"""A wallet shows what a request needs, and remembers that until a certificate begins or ends."""

from __future__ import annotations

import pytest

from maia.client import wallet as wallets
from maia.client.wallet import Wallet
from maia.credentials import Action, certificate_to_bytes
from maia.events import Instant
from maia.policy import PolicyRefusal, Request
from support.client_session import NOW, STORY

YEAR = 366 * 86_400_000_000


@pytest.fixture
def searches(monkeypatch) -> list[Instant]:
    """Return the moments at which a search took place, as they come."""
    moments: list[Instant] = []

    def searched(*arguments, at, **named):
        moments.append(at)
        return gather(*arguments, at=at, **named)

    gather = wallets.gather_evidence
    monkeypatch.setattr(wallets, "gather_evidence", searched)
    return moments


def connect() -> Request:
    return Request(STORY.principal("CCS"), Action.CONNECT, STORY.network)


def test_the_same_question_is_looked_into_once(searches):
    wallet = Wallet(STORY.certificates)
    shown = wallet.needed_for(connect(), NOW)
    assert wallet.needed_for(connect(), Instant(NOW + 1)) == shown
    assert shown
    assert len(searches) == 1


def test_what_was_shown_may_be_changed_by_whoever_got_it():
    wallet = Wallet(STORY.certificates)
    shown = wallet.needed_for(connect(), NOW)
    wallet.needed_for(connect(), NOW).clear()
    assert wallet.needed_for(connect(), NOW) == shown


def test_an_answer_ends_with_the_first_certificate_that_ends(searches):
    wallet = Wallet(STORY.certificates)
    wallet.needed_for(connect(), NOW)
    ends = min(
        signed.certificate.validity.not_after
        for signed in STORY.certificates
        if signed.certificate.validity.not_after is not None
    )
    wallet.needed_for(connect(), ends)
    assert len(searches) == 1
    with pytest.raises(PolicyRefusal):
        wallet.needed_for(connect(), Instant(ends + YEAR))
    assert len(searches) == 2


def test_a_refusal_is_not_remembered(searches):
    wallet = Wallet(())
    for _ in range(2):
        with pytest.raises(PolicyRefusal):
            wallet.needed_for(connect(), NOW)
    assert len(searches) == 2


def test_another_right_is_another_question():
    wallet = Wallet(STORY.certificates)
    shown = wallet.needed_for(connect(), NOW)
    assert set(shown) < set(map(certificate_to_bytes, STORY.certificates))
    of_another = Request(STORY.principal("Met"), Action.CONNECT, STORY.network)
    assert set(wallet.needed_for(of_another, NOW)) != set(shown)
