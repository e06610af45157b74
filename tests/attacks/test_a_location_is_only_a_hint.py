"""Whoever answers where a certificate points can shorten a right, never extend one, and keeps nobody waiting.

A39: withheld, replayed and forged statements change nothing, and nothing that comes back is without bounds.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import zlib
from base64 import b64encode
from contextlib import suppress
from dataclasses import replace

import pytest

from maia.api import tester_calls as testers_calls
from maia.api import testers
from maia.api.client import DomainClient
from maia.api.endpoints import STATEMENTS
from maia.api.testers import answer_one_time, ask_testers, with_fetched
from maia.clock import system_now
from maia.credentials import (
    OnlineTest,
    Principal,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TestKind,
    Validity,
    issue,
    period_from,
    sign_statement,
    statement_to_bytes,
)
from maia.errors import MaiaError, Unavailable
from maia.events import Instant
from maia.testing.refusals import raises
from maia.validity import Monitor, OneTimeQuestion, answer_question
from support.fetching import fetch_statements
from support.lying_location import Place, answer_of, page_of, place
from support.statements import HOLDER, ISSUER, STRANGER, TESTER, certificate

NOW = system_now()
MINUTE = 60_000_000


def demanding(
    *locations: str, kind: TestKind = TestKind.TIMED_CRL, by: Principal = TESTER.principal
) -> SignedCertificate:
    """Return a certificate that must be confirmed, and says where to ask."""
    validity = Validity(None, None).with_tests(OnlineTest(kind, by, locations))
    return issue(replace(certificate().certificate, validity=validity), ISSUER)


def listed(
    number: int, *revoked: SignedCertificate, by: SigningKey = TESTER, since: Instant = NOW
) -> SignedStatement:
    period = period_from(since, microseconds=10 * MINUTE)
    return sign_statement(
        RevocationList(by.principal, number, period, frozenset(one.id for one in revoked)), by
    )


def code_of(location: str, *others: str) -> str:
    """Return why nothing was fetched from there."""
    found = asyncio.run(ask_testers([demanding(location, *others)], now=NOW))
    assert found.statements == ()
    return found.problems[TESTER.principal].code


def vouches(statements: tuple[SignedStatement, ...], right: SignedCertificate) -> bool:
    heard = Monitor()
    for one in statements:
        heard.receive(one, NOW)
    return heard.check(right, NOW) is None


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for three seconds only, where no peer will answer anyhow."""
    monkeypatch.setattr(testers_calls, "CALL_S", 3.0)


def test_what_the_tester_says_at_its_place_is_believed():
    with place(page_of(listed(1)), key=TESTER) as met:
        right = demanding(met.location)
        assert vouches(asyncio.run(fetch_statements([right], now=NOW)), right)


def test_only_the_tester_receives_a_word():
    """A39: another domain that answers at the address ends in the handshake, before anything is said."""
    with place(page_of(listed(1)), key=STRANGER) as liar:
        assert code_of(liar.location) == "CREDENTIAL-ANOTHER-DOMAIN"
        assert liar.requests == []


@pytest.mark.usefixtures("short_patience")
def test_a_service_without_tls_receives_no_request():
    """A certificate that points into a peer's network makes no program there do anything."""
    with place(page_of(listed(1)), key=None) as inner:
        assert code_of(inner.location) in {"CREDENTIAL-ANOTHER-DOMAIN", "UNAVAILABLE-DOMAIN"}
        assert not any(b"GET" in one for one in inner.requests)


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:{port}/v1/statements",
        "https://127.0.0.1:{port}/v1/statements?x=1",
        "https://127.0.0.1:{port}/v1/statements#x",
        "https://127.0.0.1:{port}/admin",
        "https://127.0.0.1:{port}/x/../v1/statements",
        "https://smith:secret@127.0.0.1:{port}/v1/statements",
        "https://127.0.0.1:{port}@127.0.0.1:{port}/v1/statements",
        "https://127.0.0.1:999999/v1/statements",
        "https:///v1/statements",
        "https://127.0.0.1:{port}",
        "https://[::1/v1/statements",
        "https://127.0.0.1%00:{port}/v1/statements",
        "HTTPS://127.0.0.1:{port}/v1/statements",
        "file:///etc/passwd",
        "unix:/run/docker.sock",
        "gopher://127.0.0.1:{port}/v1/statements",
    ],
)
def test_only_a_domains_page_over_https_is_dialled(text: str):
    with place(page_of(listed(1)), key=TESTER) as met:
        assert code_of(text.format(port=met.port)) == "INPUT-LOCATION"
        assert met.requests == []


def test_a_redirect_is_not_followed():
    with place(page_of(listed(1)), key=TESTER) as elsewhere:
        sent_away = answer_of(b"", status="302 Found", headers=f"Location: {elsewhere.location}\r\n")
        with place(sent_away, key=TESTER) as met:
            assert code_of(met.location) == "PROTOCOL-DOMAIN-ANSWER"
            assert len(met.requests) == 1
        assert elsewhere.requests == []


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch):
    with place(page_of(listed(1)), key=TESTER) as met, place(answer_of(b""), key=None) as proxy:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert asyncio.run(fetch_statements([demanding(met.location)], now=NOW))
        assert proxy.requests == []


def test_statements_of_others_are_left_lying():
    """A39: the tester's own place hands out another domain's list."""
    with place(page_of(listed(9, by=STRANGER)), key=TESTER) as met:
        right = demanding(met.location)
        assert asyncio.run(fetch_statements([right], now=NOW)) == ()


def test_a_forged_statement_is_not_taken_along():
    """A39: a list in the tester's name that the tester has not signed."""
    real, other = listed(1), listed(2, by=STRANGER)
    forged = replace(real, signature=other.signature)
    with place(page_of(forged), key=TESTER) as met:
        assert code_of(met.location) == "CREDENTIAL-SIGNATURE"


def test_a_list_that_is_over_confirms_nothing():
    """A39: an old list, from before the revocation, is handed out again."""
    with place(page_of(listed(1, since=Instant(NOW - 60 * MINUTE))), key=TESTER) as met:
        right = demanding(met.location)
        found = asyncio.run(fetch_statements([right], now=NOW))
        assert not vouches(found, right)


def test_an_older_list_that_still_holds_does_not_undo_what_was_received():
    """A39: who has received the revocation is shown the list before it."""
    right = demanding()
    heard = Monitor()
    heard.receive(listed(2, right), NOW)
    with place(page_of(listed(1)), key=TESTER) as met:
        for one in asyncio.run(fetch_statements([demanding(met.location)], now=NOW)):
            assert isinstance(heard.receive(one, NOW).refused, MaiaError)
    problem = heard.check(right, NOW)
    assert problem is not None
    assert problem.code == "CREDENTIAL-REVOKED"


def endless(stream: object, found: Place) -> None:
    stream.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[")  # type: ignore[attr-defined]
    while not found.over.is_set():
        stream.sendall(b" " * 65_536)  # type: ignore[attr-defined]


def dripping(stream: object, found: Place) -> None:
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")  # type: ignore[attr-defined]
    while not found.over.wait(0.2):
        stream.sendall(b" ")  # type: ignore[attr-defined]


def silent(_stream: object, found: Place) -> None:
    found.over.wait()


PACKED = zlib.compressobj(level=1, wbits=31)
BOMB = answer_of(PACKED.compress(bytes(64 << 20)) + PACKED.flush(), headers="Content-Encoding: gzip\r\n")
LONG_HEAD = b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000
NO_STATEMENT = answer_of(b'{"items":[{"statement":"AAAA"}],"next":null}')
NO_CODE = answer_of(
    b'{"type":"","title":"","status":400,"code":"\\u001b[2J","detail":""}', status="400 Bad Request"
)


@pytest.mark.parametrize(
    ("talk", "code"),
    [
        pytest.param(endless, "PROTOCOL-DOMAIN-ANSWER", id="a body without an end"),
        pytest.param(answer_of(b"<html>"), "PROTOCOL-DOMAIN-ANSWER", id="garbage"),
        pytest.param(NO_STATEMENT, "STATEMENT-FORMAT", id="no statement"),
        pytest.param(page_of(*[listed(1)] * 65), "PROTOCOL-DOMAIN-ANSWER", id="too many"),
        pytest.param(answer_of(b"", status="204 No Content"), "PROTOCOL-DOMAIN-ANSWER", id="another success"),
        pytest.param(answer_of(b"no", status="500 Oops"), "PROTOCOL-DOMAIN-ANSWER", id="no details"),
        pytest.param(NO_CODE, "PROTOCOL-DOMAIN-ANSWER", id="a code that is none"),
        pytest.param(BOMB, "PROTOCOL-DOMAIN-ANSWER", id="a packed bomb"),
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n", "UNAVAILABLE-DOMAIN", id="another protocol"),
        pytest.param(LONG_HEAD, "UNAVAILABLE-DOMAIN", id="a head without an end"),
    ],
)
def test_an_answer_that_is_none_ends_with_a_code(talk: object, code: str):
    """A74: whatever comes back is bounded in size and time."""
    with place(talk, key=TESTER) as met:  # type: ignore[arg-type]
        assert code_of(met.location) == code


@pytest.mark.parametrize("talk", [dripping, silent])
@pytest.mark.usefixtures("short_patience")
def test_no_peer_waits_longer_than_it_said(talk: object):
    """A74: an answer that comes a byte at a time, or not at all."""
    with place(talk, key=TESTER) as met:  # type: ignore[arg-type]
        assert code_of(met.location) == "UNAVAILABLE-DOMAIN"


def test_a_domain_that_answers_a_byte_at_a_time_keeps_no_command_waiting():
    """A74: also where the address was given by hand."""
    with (
        place(dripping, key=TESTER) as met,
        DomainClient(f"127.0.0.1:{met.port}", domain=TESTER.principal, key=HOLDER, timeout_s=0.5) as client,
        raises("UNAVAILABLE-DOMAIN"),
    ):
        client.about()


def test_the_next_location_is_asked_where_the_first_does_not_help():
    with place(answer_of(b"?"), key=TESTER) as broken, place(page_of(listed(1)), key=TESTER) as met:
        right = demanding(*sorted([broken.location, met.location, "http://127.0.0.1/"]))
        assert vouches(asyncio.run(fetch_statements([right], now=NOW)), right)


def test_one_tester_that_hangs_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch):
    """It hangs until the other was asked; a caller that goes away before that was kept by it."""
    monkeypatch.setattr(testers_calls, "CALL_S", 20.0)
    is_given_up: list[bool] = []

    def hang(stream, found) -> None:
        stream.settimeout(0.05)
        while not met.requests and not found.over.is_set():
            with suppress(TimeoutError):
                is_given_up.append(stream.recv(1) == b"")
                return

    with place(page_of(listed(1)), key=TESTER) as met, place(hang, key=STRANGER) as hangs:
        slow = demanding(hangs.location, by=STRANGER.principal)
        right = demanding(met.location)
        found = asyncio.run(ask_testers([slow, right], now=NOW))
        assert vouches(found.statements, right)
        assert found.problems[STRANGER.principal].code == "UNAVAILABLE-DOMAIN"
    assert is_given_up == []


def test_a_wallet_makes_few_connections(monkeypatch: pytest.MonkeyPatch):
    """A wallet full of strangers' certificates is no way to knock at many doors."""
    dialled: list[str] = []

    async def note(by: Principal, text: str, _now: Instant, *, within_s: float) -> list[SignedStatement]:
        dialled.append(text)
        raise Unavailable("UNAVAILABLE-NO-LOCATION", "nobody")

    monkeypatch.setattr(testers, "_statements_at", note)
    keys = [SigningKey.from_seed(bytes([number]) * 32).principal for number in range(100)]
    wallet = [
        demanding(*(f"https://{host}.example/v1/statements" for host in "abcd"), by=key) for key in keys
    ]
    with raises("UNAVAILABLE-NO-LOCATION"):
        asyncio.run(fetch_statements(wallet, now=NOW))
    assert len(dialled) == testers.TESTERS_MAX * testers.LOCATIONS_MAX


def test_who_has_what_it_needs_asks_no_peer():
    with place(page_of(listed(1)), key=TESTER) as met:
        right = demanding(met.location)
        held = (listed(1),)
        assert asyncio.run(with_fetched([right], held, now=NOW)) == held
        assert met.requests == []


def test_a_certificate_that_is_over_is_not_asked_about():
    with place(page_of(listed(1)), key=TESTER) as met:
        validity = Validity(None, Instant(NOW - MINUTE - NOW % 1_000_000)).with_tests(
            OnlineTest(TestKind.TIMED_CRL, TESTER.principal, (met.location,))
        )
        over = issue(replace(certificate().certificate, validity=validity), ISSUER)
        assert asyncio.run(with_fetched([over], now=NOW)) == ()
        assert asyncio.run(fetch_statements([over], now=NOW)) == ()
        assert met.requests == []


# ------------------------------------------------------------ an answer for one request


def question_about(right: SignedCertificate) -> OneTimeQuestion:
    return OneTimeQuestion(TESTER.principal, right.id, bytes(32), os.urandom(32))


def refused(question: OneTimeQuestion, right: SignedCertificate) -> str:
    with pytest.raises(MaiaError) as found:
        asyncio.run(answer_one_time(question, right, HOLDER))
    return found.value.code


def test_a_question_goes_to_only_the_tester():
    """A18: a peer that else answers there receives neither the question nor a signature."""
    with place(answer_of(b"{}"), key=STRANGER) as liar:
        right = demanding(liar.location, kind=TestKind.ONE_TIME)
        assert refused(question_about(right), right) == "CREDENTIAL-ANOTHER-DOMAIN"
        assert liar.requests == []


def test_a_question_about_another_certificate_is_not_asked():
    """A verifier cannot make a client ask about what the client has not shown."""
    here, there = "https://a/v1/statements", "https://b/v1/statements"
    right, other = (demanding(at, kind=TestKind.ONE_TIME) for at in (here, there))
    assert refused(question_about(other), right) == "INPUT-ONE-TIME-QUESTION"
    assert refused(replace(question_about(right), by=STRANGER.principal), right) == "INPUT-ONE-TIME-QUESTION"
    assert refused(question_about(demanding()), demanding()) == "INPUT-ONE-TIME-QUESTION"


def test_a_certificate_without_a_location_says_so():
    right = demanding(kind=TestKind.ONE_TIME)
    assert refused(question_about(right), right) == "UNAVAILABLE-NO-LOCATION"


def test_an_answer_to_another_question_is_none():
    """A30: the tester's place hands out an answer that it gave to another peer."""
    about = b'{"principal":"%s","instance":"%s","now":"","skew_s":60,"version":"","has_policy":true}'
    about %= (str(TESTER.principal).encode(), b"00" * 16)
    right_at: list[SignedCertificate] = []

    def talk(stream, found) -> None:
        if b"/v1/domain" in found.requests[-1]:
            stream.sendall(answer_of(about).replace(b"Connection: close\r\n", b""))
            found.requests.append(stream.recv(65_536))
        old = statement_to_bytes(answer_question(question_about(right_at[0]), TESTER))
        stream.sendall(answer_of(json.dumps({"statement": b64encode(old).decode()}).encode()))

    with place(talk, key=TESTER) as met:
        right_at.append(demanding(met.location, kind=TestKind.ONE_TIME))
        assert refused(question_about(right_at[0]), right_at[0]) == "PROTOCOL-DOMAIN-ANSWER"
        assert any(b"POST /v1/revalidations" in one for one in met.requests)


def test_a_question_that_is_given_up_in_the_handshake_leaves_no_socket_behind():
    """A74: a peer who takes the connection and says nothing holds no socket of ours."""

    async def give_up(silent_one: socket.socket) -> None:
        here = testers_calls.Location("127.0.0.1", silent_one.getsockname()[1])
        asked = asyncio.create_task(testers_calls.TesterCalls(TESTER.principal, here).ask(STATEMENTS))
        loop = asyncio.get_running_loop()
        taken, _ = await loop.sock_accept(silent_one)
        with taken:
            taken.setblocking(False)
            assert await loop.sock_recv(taken, 1)  # the handshake has begun
            asked.cancel()
            with suppress(asyncio.CancelledError):
                await asked

    with socket.create_server(("127.0.0.1", 0)) as silent_one:
        silent_one.setblocking(False)
        asyncio.run(give_up(silent_one))
    gc.collect()  # a socket that was left behind says so now, and that is an error here
