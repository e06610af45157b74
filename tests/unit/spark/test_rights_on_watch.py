"""Readers whose certificates must be confirmed: tested once, and watched while a job runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from maia.config.input_files import BadFile
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    OnlineTest,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TestKind,
    issue,
    period_from,
    sign_statement,
    statement_to_bytes,
)
from maia.errors import Unavailable
from maia.events import Instant
from maia.policy import GrantStale
from maia.spark.governed.reader import accepted_signers, slices_of
from maia.spark.governed.right_watch import (
    HeldRight,
    RightWatch,
    follow_streams,
    read_statements,
    right_watch,
)
from maia.spark.keys.key_server import job_desk
from maia.testing import wait_until
from maia.testing.refusals import raises
from maia.validity import Monitor, VouchedFor
from support.governed import BROKER, OWNER, asked, at, grant, key_of, reader, typed

TESTER = key_of("tester")
TYPE = typed()
MINUTE = 60_000_000
NOW = at(1)


def vouched(signed: SignedCertificate, by: SigningKey = TESTER) -> SignedCertificate:
    said = signed.certificate
    assert isinstance(said, AuthorisationCertificate)
    validity = said.validity.with_tests(OnlineTest(TestKind.TIMED_CRL, by.principal))
    return issue(AuthorisationCertificate(said.issuer, said.subject, False, said.authority, validity), OWNER)


def listed(number: int, *revoked: SignedCertificate, since: Instant | None = NOW) -> SignedStatement:
    period = None if since is None else period_from(since, microseconds=MINUTE)
    ids = frozenset(one.id for one in revoked)
    return sign_statement(RevocationList(TESTER.principal, number, period, ids), TESTER)


def heard(*statements: SignedStatement) -> Monitor:
    standing = Monitor()
    for one in statements:
        standing.receive(one, NOW)
    return standing


RIGHT = vouched(grant())


def test_a_reader_that_was_not_tested_has_no_use_of_certificates_that_demand_it():
    with pytest.raises(GrantStale):
        slices_of(asked(reader(RIGHT), TYPE), reader(RIGHT))


def test_a_reader_that_is_confirmed_now_reads_the_past():
    who = reader(RIGHT).tested(heard(listed(1)), NOW)
    (one,) = slices_of(asked(who, TYPE), who, since=at(-1000), until=at(1000))
    assert (one.since, one.until) == (at(-1000), at(1000))


def test_a_reader_that_is_revoked_now_reads_nothing_of_the_past():
    who = reader(RIGHT).tested(heard(listed(1), listed(2, RIGHT, since=None)), NOW)
    with raises("POLICY-REVOKED"):
        slices_of(asked(who, TYPE), who, since=at(-1000), until=at(-999))


def test_a_list_that_is_over_confirms_no_reader():
    who = reader(RIGHT).tested(heard(listed(1)), Instant(NOW + MINUTE))
    with pytest.raises(GrantStale):
        slices_of(asked(who, TYPE), who)


def test_writers_are_tested_as_readers_are():
    writes = vouched(grant(BROKER, action=Action.PUBLISH))
    shown = {BROKER.principal: (writes,)}

    def counts(who) -> bool:
        found = accepted_signers(shown, [TYPE], grounds=who)
        return found.may_write(BROKER.principal.key, TYPE.kinds, int(at(0)))

    assert not counts(reader())
    assert counts(reader().tested(heard(listed(1)), NOW))
    assert not counts(reader().tested(heard(listed(1), listed(2, writes, since=None)), NOW))


# ------------------------------------------------------------ while a job runs


def held(who, grant=None) -> HeldRight:
    request = asked(who, TYPE)
    return HeldRight(
        who, who.credentials, slices_of(request, who), lambda now: slices_of(request, now), grant
    )


class Desk:
    """Takes note of the grants that are ended."""

    def __init__(self) -> None:
        self.ended: list[object] = []

    def end(self, grant: object) -> None:
        self.ended.append(grant)


class Watched:
    """A watch over one table, with a clock of its own."""

    def __init__(self, *credentials: SignedCertificate) -> None:
        self.desk, self.now = Desk(), NOW
        self.watch = RightWatch(self.desk, heard(listed(1)), lambda: self.now)
        self.watch.begin(held(reader(*credentials).tested(self.watch.monitor, NOW), "mine"))

    def ended_at(self, now: Instant) -> list[object]:
        self.now = now
        self.watch.look()
        return self.desk.ended


def test_a_revocation_ends_the_table_that_depends_on_it_and_no_other():
    one = Watched(RIGHT)
    one.watch.begin(held(reader(grant()), "another"))
    assert one.watch.follow([listed(2, RIGHT, since=None)]) == []
    assert one.watch.follow([listed(3, since=None)]) == []
    assert one.desk.ended == ["mine"]


def test_a_table_with_another_right_to_the_same_goes_on():
    one = Watched(RIGHT, grant())
    one.watch.follow([listed(2, RIGHT, since=None)])
    assert one.desk.ended == []


def test_a_table_ends_a_moment_after_the_last_list():
    one, last = Watched(RIGHT), Instant(NOW + MINUTE - 1)
    assert one.ended_at(last) == []
    assert one.ended_at(Instant(last + 1)) == ["mine"]


def test_the_next_list_keeps_a_table():
    one = Watched(RIGHT)
    assert one.watch.follow([listed(2, since=Instant(NOW + MINUTE))]) == []
    assert one.ended_at(Instant(NOW + MINUTE + 5)) == []
    assert one.watch.monitor.next_change() == NOW + 2 * MINUTE


def test_what_cannot_be_believed_changes_nothing_and_is_told():
    one = Watched(RIGHT)
    one.watch.follow([listed(5, since=None)])
    assert len(one.watch.follow([listed(2, RIGHT, since=None)])) == 1
    assert one.desk.ended == []


def test_one_time_answers_count_for_one_lease_and_not_before_they_came():
    """A clock that is set back does not extend them, at a job as at a broker."""
    once = frozenset({(RIGHT.id, TESTER.principal)})
    who = replace(reader(RIGHT), vouched=VouchedFor.for_a_lease(once, NOW, 30))
    moments = [Instant(NOW - 1), NOW, Instant(NOW + MINUTE // 2), Instant(NOW + MINUTE // 2 + 1)]
    assert [bool(who.once_at(one)) for one in moments] == [False, True, True, False]


def test_the_desk_ends_one_grant_and_answers_the_others():
    with job_desk() as desk:
        one, other = desk.open(None, frozenset()), desk.open(None, frozenset())
        desk.end(one)
        with raises("PIPELINE-GRANT-ENDED"):
            one.keys_of(())
        assert other.keys_of(()) == {}


def test_the_desk_checks_the_clock_before_it_answers():
    now = [NOW]
    with job_desk() as desk, right_watch(desk, [listed(1)], every_s=3600, clock=lambda: now[0]) as watch:
        one, other = desk.open(None, frozenset()), desk.open(None, frozenset())
        watch.begin(held(watch.tested(reader(RIGHT), asked(reader(RIGHT), TYPE)), one))
        now[0] = Instant(NOW + MINUTE - 1)
        assert one.keys_of(()) == {}
        now[0] = Instant(NOW + MINUTE)
        with raises("PIPELINE-GRANT-ENDED"):
            one.keys_of(())
        assert other.keys_of(()) == {}
        assert watch.ended == 1


def test_a_statement_that_appears_in_a_wallet_is_followed(tmp_path):
    with (
        job_desk() as desk,
        right_watch(desk, [listed(1)], folders=[tmp_path], every_s=0.01, clock=lambda: NOW) as watch,
    ):
        one = desk.open(None, frozenset())
        watch.begin(held(watch.tested(reader(RIGHT), asked(reader(RIGHT), TYPE)), one))
        (tmp_path / "a.statement").write_bytes(b"half of one")
        (tmp_path / "b.statement").write_bytes(statement_to_bytes(listed(2, RIGHT, since=None)))
        wait_until(lambda: watch.ended == 1, "the table ends")
        with raises("PIPELINE-GRANT-ENDED"):
            one.keys_of(())


class Streams:
    """A client that is told statements; the first question of each issuer goes wrong."""

    def __init__(self, *statements: bytes) -> None:
        self.statements, self.asked = statements, 0

    async def subscribe(self, name, *, state):
        assert state
        self.asked += 1
        if self.asked == 1:
            raise Unavailable("the broker is away")
        return self._told()

    async def _told(self):
        for data in self.statements:
            yield {"statement": data}


def test_a_client_that_receives_a_tester_ends_what_the_tester_takes_back():
    forged = sign_statement(RevocationList(OWNER.principal, 1, None, frozenset()), OWNER)
    said = [listed(2, since=Instant(NOW + MINUTE)), forged, listed(3, RIGHT, since=None)]
    client = Streams(b"no statement", *map(statement_to_bytes, said))
    with job_desk() as desk, right_watch(desk, [listed(1)], every_s=3600, clock=lambda: NOW) as watch:
        one = desk.open(None, frozenset())
        watch.begin(held(watch.tested(reader(RIGHT), asked(reader(RIGHT), TYPE)), one))
        asyncio.run(follow_streams(client, watch, [TESTER.principal], again_s=0))
        assert watch.ended == 1
        assert set(watch.monitor) == {TESTER.principal}
        with raises("PIPELINE-GRANT-ENDED"):
            one.keys_of(())


def test_files_of_statements_are_read_in_the_order_of_their_numbers(tmp_path):
    for name, one in (("a", listed(2, since=None)), ("b", listed(1))):
        (tmp_path / f"{name}.statement").write_bytes(statement_to_bytes(one))
    assert [one.statement.sequence for one in read_statements([tmp_path])] == [1, 2]
    broken = tmp_path / "c.statement"
    broken.write_bytes(b"no statement")
    for path in (broken, tmp_path / "none"):
        with pytest.raises(BadFile):
            read_statements([path])
