"""A job asks the testers of its own certificates by itself, before and while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from maia.clock import system_now
from maia.credentials import (
    Principal,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    certificate_from_bytes,
    period_from,
    sign_statement,
)
from maia.errors import MaiaError, Refusal
from maia.events import Instant
from maia.policy import GrantStale, GrantTestedOnce
from maia.spark.governed import right_watch as testers_watch
from maia.spark.governed.reader import Reader, slices_of
from maia.spark.governed.right_watch import ONCE_S, Asking, HeldRight, RightWatch, right_watch
from maia.spark.keys.key_server import JobDesk, job_desk
from maia.types import verify_definition
from support.domain_server import DomainAtWork, key_of
from support.governed import asked
from support.tested_rights import NUMBERPLATE, domain_with_locations, logged_in, rights_of, take_back

TYPE = verify_definition(NUMBERPLATE, at=system_now())
SECOND = 1_000_000


@pytest.fixture
def met(tmp_path) -> Iterator[DomainAtWork]:
    with domain_with_locations(tmp_path) as found:
        yield found


def right_of(met: DomainAtWork, who: str) -> SignedCertificate:
    """Return a reader's right to the type: a clerk's is on a timed list, an auditor's is asked about."""
    (right,) = logged_in(met, who).rights
    return certificate_from_bytes(right.certificate)


def named(right: SignedCertificate) -> Reader:
    subject = right.certificate.subject
    assert isinstance(subject, Principal)
    return Reader(subject, (right,))


def held(watch: RightWatch, desk: JobDesk, right: SignedCertificate, *more: SignedCertificate) -> HeldRight:
    """Decide a table and have it looked after."""
    reader = replace(named(right), credentials=(right, *more))
    request = asked(reader, TYPE)
    who = watch.tested(reader, request)
    decided = slices_of(request, who)
    table = HeldRight(
        who,
        who.credentials,
        decided,
        lambda now: slices_of(request, now),
        desk.open(None, frozenset()),
        request,
    )
    watch.begin(table)
    return table


def hour_of(met: DomainAtWork, now: Instant) -> list[SignedStatement]:
    """Return a list that holds for an hour, so that time can pass and one-time answers alone matter."""
    period = period_from(now, microseconds=3600 * SECOND)
    return [sign_statement(RevocationList(met.key.principal, 1_000_000, period, frozenset()), met.key)]


def asking(*rights: SignedCertificate) -> Asking:
    return Asking(key_of("ada"), rights, every_s=3600)


def stands(right: HeldRight) -> bool:
    try:
        right.grant.keys_of(())
    except Refusal as problem:
        if problem.code != "PIPELINE-GRANT-ENDED":
            raise
        return False
    return True


def moving() -> tuple[list[Instant], Callable[[], Instant]]:
    now = [system_now()]
    return now, lambda: now[0]


def test_a_job_fetches_the_statements_that_its_wallet_lacks(met):
    right = right_of(met, "clark")
    with job_desk() as desk:
        with right_watch(desk) as watch, pytest.raises(GrantStale):
            held(watch, desk, right)
        with right_watch(desk, asking=asking(right)) as watch:
            assert stands(held(watch, desk, right))


def test_a_revocation_is_accepted_where_the_job_asks_and_ends_the_table(met):
    """A44: without a login, a client or a wallet that is renewed."""
    right = right_of(met, "clark")
    with job_desk() as desk, right_watch(desk, asking=asking(right)) as watch:
        table = held(watch, desk, right)
        watch.ask()
        assert stands(table)
        take_back(met, right)
        watch.ask()
        assert not stands(table)
        assert watch.ended == 1


def test_a_job_does_not_dial_for_certificates_that_are_not_its_own(met):
    """Brokers' certificates come from a key server: strangers would choose where the driver connects."""
    right = right_of(met, "clark")
    with (
        job_desk() as desk,
        right_watch(desk, asking=asking()) as watch,
        pytest.raises(GrantStale),
    ):
        held(watch, desk, right)


def test_a_job_asks_its_own_one_time_question_about_its_table(met):
    """A30: the answer is for this request, and for this verifier."""
    right = right_of(met, "ada")
    with job_desk() as desk:
        with right_watch(desk) as watch, pytest.raises(GrantTestedOnce):
            held(watch, desk, right)
        with right_watch(desk, asking=asking(right)) as watch:
            assert stands(held(watch, desk, right))
            assert watch.unanswered == {}


def test_a_tester_that_says_no_is_accepted_in_its_own_words(met):
    right = right_of(met, "ada")
    take_back(met, right)
    with job_desk() as desk, right_watch(desk, asking=asking(right)) as watch:
        with pytest.raises(MaiaError):
            held(watch, desk, right)
        assert [one.code for one in watch.unanswered.values()] == ["CREDENTIAL-REVOKED"]


def test_a_table_that_goes_on_is_asked_about_again(met):
    right = right_of(met, "ada")
    now, clock = moving()
    with (
        job_desk() as desk,
        right_watch(desk, hour_of(met, now[0]), asking=asking(right), clock=clock) as watch,
    ):
        table = held(watch, desk, right)
        for _ in range(4):
            now[0] = Instant(now[0] + round(ONCE_S / 2 * SECOND))
            watch.ask()
            assert stands(table)
        now[0] = Instant(now[0] + round(ONCE_S * SECOND))
        assert stands(table), "the answer counts up to its last moment"
        now[0] = Instant(now[0] + 1)
        assert not stands(table)


def test_a_tester_that_says_no_ends_the_table_at_once(met):
    """A30, A44: long before the answer before would be over."""
    right = right_of(met, "ada")
    now, clock = moving()
    with (
        job_desk() as desk,
        right_watch(desk, hour_of(met, now[0]), asking=asking(right), clock=clock) as watch,
    ):
        table = held(watch, desk, right)
        take_back(met, right)
        now[0] = Instant(now[0] + round(ONCE_S / 2 * SECOND))
        watch.ask()
        assert not stands(table)


def test_a_tester_that_is_away_ends_the_table_when_its_last_answer_is_over(tmp_path):
    with job_desk() as desk:
        with domain_with_locations(tmp_path) as met:
            right = right_of(met, "ada")
            now, clock = moving()
            watching = right_watch(desk, hour_of(met, now[0]), asking=asking(right), clock=clock)
            watch = watching.__enter__()
            table = held(watch, desk, right)
        try:
            now[0] = Instant(now[0] + round(ONCE_S * SECOND))
            watch.ask()
            assert stands(table)
            now[0] = Instant(now[0] + 1)
            watch.ask()
            assert not stands(table)
        finally:
            watching.__exit__(None, None, None)


def test_no_reader_is_asked_about_certificates_that_the_table_has_no_use_for(met, monkeypatch):
    others = rights_of(logged_in(met, "smith"))["one-time"]
    right, questions = right_of(met, "ada"), []
    ask = testers_watch.answer_one_time

    async def counted(question, certificate, key):
        questions.append(certificate.id)
        return await ask(question, certificate, key)

    monkeypatch.setattr(testers_watch, "answer_one_time", counted)
    with job_desk() as desk, right_watch(desk, asking=asking(others, right)) as watch:
        assert stands(held(watch, desk, right, others))
    assert questions == [right.id]
