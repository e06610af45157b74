"""What does a client do about certificates that must be vouched for, and rights that change?"""

from __future__ import annotations

import pytest

from maia.client import Accepted, Changed, CredentialsAdded, Disconnected, Ended
from maia.client.notices import PutOff
from maia.client.wallet import Wallet
from maia.credentials import Action, SigningKey, TestKind, certificate_to_bytes, statement_to_bytes
from maia.events import Instant
from maia.testing import Statements
from maia.wire import Bye, Failed, Hello, Subscribe
from maia.wire.messages import Accepted as AcceptedMessage
from maia.wire.messages import Changed as ChangedMessage
from maia.wire.messages import Ended as EndedMessage
from maia.wire.messages import Show
from support.client_session import LEASE_S, NOW, STORY, Played

AWAITED = "UNAVAILABLE-STATEMENT-AWAITED"
CCS = STORY.keys["CCS"]


@pytest.fixture
def played() -> Played:
    made = Played("billing office")
    made.start()
    return made


def asked(played: Played):
    played.is_welcomed()
    entry = played.subscribes()
    played.said(Subscribe)
    played.notices()
    return entry


def test_a_request_that_waits_for_a_statement_is_made_again_by_itself(played):
    entry = asked(played)
    for times in range(5):
        played.broker_says(Failed(entry.ref, AWAITED, "nobody has vouched for it yet"))
        # The first statements of an issuer take a moment; what takes longer is news.
        assert [type(one) for one in played.notices()] == ([] if times < 1 else [PutOff])
        played.time_passes(2.1)
        (again,) = played.said(Subscribe)
        assert again.id == entry.ref
    played.broker_says(AcceptedMessage(entry.ref, None))
    assert played.notices() == [Accepted(entry.ref, None)]


def test_it_is_made_again_for_as_long_as_the_application_waits(played):
    """An issuer's server may take minutes to start: it gave up after one, whatever it was told to wait."""
    entry = asked(played)
    for _ in range(100):
        played.broker_says(Failed(entry.ref, AWAITED, "nobody has vouched for it yet"))
        played.time_passes(2.1)
        assert len(played.said(Subscribe)) == 1
    assert not any(isinstance(one, Ended) for one in played.notices())
    assert entry.problem.code == AWAITED
    played.broker_says(Failed(entry.ref, AWAITED, "nobody has vouched for it yet"))
    played.session.withdraw(entry, played.now)
    played.time_passes(2.1)
    assert played.said(Subscribe) == []


def test_what_ended_for_want_of_a_statement_is_asked_for_again(played):
    entry = asked(played)
    played.broker_says(AcceptedMessage(entry.ref, None))
    played.broker_says(EndedMessage([entry.ref], "POLICY-STALE", "nobody has vouched for it"))
    assert len(played.said(Subscribe)) == 1
    assert not any(isinstance(one, Ended) for one in played.notices())


def test_what_was_revoked_is_not_asked_for_again(played):
    entry = asked(played)
    played.broker_says(AcceptedMessage(entry.ref, None))
    played.notices()
    played.broker_says(EndedMessage([entry.ref], "POLICY-REVOKED", "it was revoked"))
    assert played.said(Subscribe) == []
    (gone,) = played.notices()
    assert (gone.ref, gone.problem.code) == (entry.ref, "POLICY-REVOKED")


def test_a_client_that_may_not_connect_any_more_wants_nothing(played):
    entry = asked(played)
    played.broker_says(AcceptedMessage(entry.ref, None))
    played.notices()
    played.broker_says(Bye("POLICY-REVOKED", "it was revoked"))
    left, gone = played.notices()
    assert isinstance(left, Disconnected)
    assert left.is_final
    assert (gone.ref, gone.problem.code) == (entry.ref, "POLICY-REVOKED")


def test_a_changed_right_is_told_to_the_application(played):
    entry = asked(played)
    played.broker_says(AcceptedMessage(entry.ref, None))
    played.notices()
    played.broker_says(ChangedMessage(entry.ref, 7, "REFUSED-RIGHT-CHANGED", "it may show something else"))
    (changed,) = played.notices()
    assert isinstance(changed, Changed)
    assert (changed.ref, changed.until, changed.problem.code) == (
        entry.ref,
        Instant(7),
        "REFUSED-RIGHT-CHANGED",
    )


def test_what_is_shown_goes_to_the_broker_and_into_the_wallet(played):
    played.is_welcomed()
    played.said(Hello)
    more = _certificate("more")
    number, effects = played.session.show([more], [Statements(CCS).list_for(NOW, 60)])
    played.effects += effects
    (shown,) = played.said(Show)
    assert (shown.id, shown.certificates) == (number, [certificate_to_bytes(more)])
    assert len(shown.statements) == 1
    assert played.notices()[-1:] != [CredentialsAdded(number)]
    played.broker_says(AcceptedMessage(number, None))
    assert played.notices() == [CredentialsAdded(number)]


def test_a_showing_that_fails_says_why(played):
    played.is_welcomed()
    number, effects = played.session.show([_certificate("more")], [])
    played.effects += effects
    played.notices()
    played.broker_says(Failed(number, "UNAVAILABLE-ENTRY-QUOTA", "that is too much"))
    (gone,) = played.notices()
    assert (gone.ref, gone.problem.code) == (number, "UNAVAILABLE-ENTRY-QUOTA")


def test_what_is_shown_without_a_broker_is_shown_with_the_next_hello(played):
    says = Statements(CCS)
    number, effects = played.session.show([], [says.list_for(NOW, 60)])
    played.effects += effects
    assert played.said(Show) == []
    assert CredentialsAdded(number) in played.notices()
    played.is_welcomed()
    before_hello, after_welcome = played.said(Show)
    assert before_hello.certificates == after_welcome.certificates == []
    assert before_hello.statements == after_welcome.statements


def test_a_wallet_shows_the_list_of_the_moment_and_those_that_came_early():
    wallet, says = Wallet([_certificate("one")]), Statements(CCS)
    first, second = says.list_for(NOW, 60), says.list_for(Instant(NOW + 60_000_000), 60)
    at_once = says.revoke(_certificate("two"))
    stranger = Statements(SigningKey.from_seed(bytes(32))).list_now()
    for statements in ([first, second], [second, first, at_once], [first, stranger]):
        wallet.add_statements(statements)
    assert wallet.statements_for(NOW) == [statement_to_bytes(one) for one in (first, second, at_once)]
    later = Instant(NOW + 60_000_000)
    assert wallet.statements_for(later) == [statement_to_bytes(one) for one in (second, at_once)]


def test_a_renewal_is_one_message_after_a_showing(played):
    """The broker has decided again what stands, so nothing has to be asked for one by one."""
    entry = asked(played)
    played.broker_says(AcceptedMessage(entry.ref, None))
    number, effects = played.session.show([_certificate("more")], [])
    played.effects += effects
    played.broker_says(AcceptedMessage(number, None))
    played.said(Show)
    played.time_passes(LEASE_S / 2)
    assert played.said(Subscribe) == []


def _certificate(comment: str):
    to = STORY.principal("billing office")
    return STORY.grant(
        "CCS", to, STORY.definition, Action.SUBSCRIBE, comment=comment, test=TestKind.TIMED_CRL
    )


def test_what_was_on_its_way_when_the_link_ended_counts_as_shown_once(played):
    """The next requests show it again, whichever broker hears them."""
    played.is_welcomed()
    number, effects = played.session.show([], [])
    played.effects += effects
    for _ in range(2):
        played.link_closes()
        played.time_passes(5)
        played.is_welcomed()
    assert [notice for notice in played.notices() if isinstance(notice, CredentialsAdded)] == [
        CredentialsAdded(number)
    ]
