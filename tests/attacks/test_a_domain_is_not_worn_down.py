"""Who may do nothing, or one thing, at a domain's HTTP interface: it gets nothing more, and stops no peer."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.client import authorization, run_of
from maia.clock import system_now
from maia.credentials import certificate_to_bytes
from maia.credentials.statements import (
    RevocationList,
    sign_statement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.domain.access import validity_publisher
from maia.domain.access.results import AdminAct
from maia.domain.access.service import AccessControl
from maia.domain.access.settings import AccessLimits, AccessSettings
from maia.domain.http import authentication as gate
from maia.domain.http import calls, turns
from maia.domain.server.access_config import AccessConfig, PreparedAccess
from maia.domain.storage.tables import StatementRow
from maia.errors import MaiaError, Refusal
from maia.net import http_listener as listener
from maia.net.addresses import host_and_port
from maia.net.tls import pinning_context
from maia.testing import wait_until
from maia.testing.refusals import raises
from maia.types import definition_to_bytes
from maia.wire.api_requests import ApiCall
from support.access_control import Station
from support.domain_server import PATIENCE_S, DomainAtWork, admin_certificate, domain_at_work, key_of
from support.police_policy import police_policy
from support.policy import NUMBERPLATE

POLICY = police_policy()
SMITH, JONES = key_of("smith").principal, key_of("jones").principal
ROSTER = bodies.FactBody("detective", [bodies.TypedArgument(principal=str(SMITH))])
NOBODY = "00" * 32


def with_an_officer(met: DomainAtWork) -> answers.WalletAnswer:
    with met.admin() as admin:
        admin.call("PUT", "/v1/policy", bodies.PolicyBody(POLICY), answer=answers.PolicyAnswer)
        admin.call("POST", "/v1/facts", ROSTER, answer=answers.News)
    with met.client("smith") as smith:
        return smith.call("POST", "/v1/login", bodies.LoginBody(), answer=answers.WalletAnswer)


@pytest.fixture
def met(tmp_path: Path) -> Iterator[DomainAtWork]:
    with domain_at_work(tmp_path) as found:
        yield found


# ------------------------------------------------------------ one administrative right is one


def _pages() -> list[tuple[str, str, object, AdminAct]]:
    certificate = certificate_to_bytes(admin_certificate(key_of("met"), JONES))
    said = sign_statement(RevocationList(JONES, 1, None, frozenset()), key_of("jones"))
    definition = definition_to_bytes(NUMBERPLATE.signed)
    medal = bodies.Appointing(str(JONES), "medal", bodies.Period("unbounded", "unbounded"))
    return [
        ("GET", "/v1/policy", None, AdminAct.READ_POLICY),
        ("PUT", "/v1/policy", bodies.PolicyBody(POLICY), AdminAct.CHANGE_POLICY),
        ("POST", "/v1/types", bodies.TypeBody(definition), AdminAct.CHANGE_POLICY),
        ("POST", "/v1/held", bodies.CertificatesBody([certificate]), AdminAct.CHANGE_POLICY),
        ("POST", "/v1/appointments", medal, AdminAct.CHANGE_APPOINTMENTS),
        ("GET", "/v1/appointments", None, AdminAct.READ_APPOINTMENTS),
        ("POST", f"/v1/appointments/{NOBODY}/revocation", bodies.Reason(), AdminAct.CHANGE_APPOINTMENTS),
        ("GET", "/v1/facts?name=detective", None, AdminAct.READ_FACTS),
        ("POST", "/v1/facts", ROSTER, AdminAct.CHANGE_FACTS),
        ("POST", "/v1/facts/retraction", ROSTER, AdminAct.CHANGE_FACTS),
        ("PUT", "/v1/facts/detective", bodies.FactRows([]), AdminAct.CHANGE_FACTS),
        ("POST", f"/v1/memberships/{NOBODY}/end", bodies.Reason(), AdminAct.CHANGE_RIGHTS),
        ("POST", "/v1/revocations", bodies.Revocation([NOBODY]), AdminAct.CHANGE_RIGHTS),
        ("GET", f"/v1/principals/{JONES}/memberships", None, AdminAct.READ_REGISTER),
        ("GET", f"/v1/principals/{JONES}/rights", None, AdminAct.READ_REGISTER),
        ("POST", "/v1/delegations", bodies.DelegationBody(certificate), AdminAct.CHANGE_REGISTER),
        ("GET", "/v1/register", None, AdminAct.READ_REGISTER),
        ("GET", "/v1/register/who-can?action=subscribe&type=T", None, AdminAct.READ_REGISTER),
        ("POST", "/v1/register/would-be-able", bodies.WouldBody("officer"), AdminAct.READ_REGISTER),
        ("POST", "/v1/statements", bodies.StatementBody(statement_to_bytes(said)), AdminAct.CHANGE_REGISTER),
        ("GET", "/v1/audit", None, AdminAct.READ_AUDIT),
        ("GET", "/v1/audit/head", None, AdminAct.READ_AUDIT),
    ]  # fmt: skip


@pytest.mark.parametrize("act", AdminAct)
def test_who_may_do_one_thing_may_do_no_other(met: DomainAtWork, act: AdminAct) -> None:
    """A38: the holder of each administrative right tries every page."""
    with_an_officer(met)
    right = admin_certificate(met.key, key_of("clerk").principal, act.topic, frozenset({act.action}))
    let_in = set()
    with met.client("clerk", right) as clerk:
        for method, path, body, wanted in _pages():
            try:
                clerk.call(method, path, body, answer=object)
            except MaiaError as problem:
                if isinstance(problem, Refusal) and problem.code.startswith("POLICY-"):
                    continue
            let_in.add((path, wanted))
    assert let_in == {(path, wanted) for _, path, _, wanted in _pages() if wanted is act}


# ------------------------------------------------------------ what is said is so


class BrokenCarrier:
    """A way to the network that can be cut."""

    def __init__(self) -> None:
        self.works = False

    async def carry(self, _statement: object) -> bool:
        return self.works


def test_an_act_that_is_repeated_does_not_claim_that_the_network_knows(met: DomainAtWork) -> None:
    """A35: the broker cannot be reached; neither the same key nor the same act again turns no into yes."""
    wallet = with_an_officer(met)
    met.running.service.carrier = carrier = BrokenCarrier()
    again = bodies.Revocation([wallet.rights[0].id])
    with met.admin() as admin:
        for once in ("first", "first", "second", ""):
            admin.call("POST", "/v1/revocations", again, answer=answers.RevokedAnswer, once=once)
            assert admin.last.is_published is False, once
        carrier.works = True
        admin.call("POST", "/v1/facts/retraction", ROSTER, answer=answers.RevokedAnswer)
        assert admin.last.is_published is True
        admin.call("POST", "/v1/revocations", again, answer=answers.RevokedAnswer, once="first")
        assert admin.last.is_published is True


def test_a_policy_that_is_read_again_is_recorded_under_a_peer_that_asked(tmp_path: Path) -> None:
    """A84: the audit names the administrator, and the answer says what fell."""
    file = tmp_path / "met.policy"
    file.write_text(POLICY)
    config = AccessConfig(api_listen="127.0.0.1:0", policy_file=file)
    with domain_at_work(tmp_path, prepared=PreparedAccess(config)) as met:
        wallet = with_an_officer(met)
        file.write_text(POLICY.replace("for 1 day", "for 2 days"))
        with met.admin("chief") as chief:
            loaded = chief.call("POST", "/v1/policy/reload", answer=answers.PolicyAnswer)
            audit = chief.call("GET", "/v1/audit", answer=answers.AuditPage)
        assert loaded.loaded_by == audit.items[-1].actor == str(key_of("chief").principal)
        assert {one.id for one in loaded.revoked.memberships} == {wallet.memberships[0].membership.id}
        assert wallet.rights[0].id in loaded.revoked.ids


# ------------------------------------------------------------ no peer is kept out by others


def test_one_principal_does_not_use_up_the_memory_for_answers() -> None:
    """A74: an officer asks with one new key after the other; the administrator still gets its answer."""
    station = Station(key_of("met"), settings=AccessSettings(limits=AccessLimits(answers_each=4)))
    for number in range(4):
        station.once(f"{number}", b"login", lambda: b"wallet", actor=SMITH)
    with raises("UNAVAILABLE-ACCESS-CONTROL-FULL"):
        station.once("more", b"login", lambda: b"wallet", actor=SMITH)
    assert station.once("3", b"login", lambda: b"another", actor=SMITH) == b"wallet"
    assert station.once("more", b"revoke", lambda: b"revoked", actor=JONES) == b"revoked"


def test_the_body_of_a_stranger_is_not_even_read(met: DomainAtWork, monkeypatch: pytest.MonkeyPatch) -> None:
    """A74: a peer that may not change facts cannot have thirty megabytes of them taken apart."""
    with_an_officer(met)
    read: list[int] = []

    async def noted(request: object, body_max: int = 0) -> bytes:
        read.append(body_max)
        return await genuine(request, body_max)  # type: ignore[arg-type]

    genuine = gate.read_body
    monkeypatch.setattr(gate, "read_body", noted)
    with met.client("stranger") as stranger, pytest.raises(Refusal) as refused:
        stranger.call("PUT", "/v1/facts/detective", bodies.FactRows([["x"]] * 1000), answer=object)
    assert refused.value.code.startswith("POLICY-")
    assert read == []


def _closed_by_peer(link: socket.socket, *, while_sending: bytes) -> bool:
    """Return whether a connection is closed while we send a little of something now and then."""
    link.settimeout(0.1)
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        try:
            link.sendall(while_sending)
            if link.recv(1 << 16) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.parametrize("is_first", [True, False])
def test_a_head_that_never_ends_is_not_waited_for(
    met: DomainAtWork, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """A74: neither as the first request of a connection nor after one that was answered."""
    monkeypatch.setattr(listener, "HEAD_S", 0.5 if is_first else PATIENCE_S)
    host, port = host_and_port(met.address)
    context, plain = pinning_context(met.key.principal), socket.create_connection((host, port))
    with context.wrap_socket(plain) as link:
        if not is_first:
            link.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert link.recv(1 << 16).startswith(b"HTTP/1.1 200")
            monkeypatch.setattr(listener, "HEAD_S", 0.5)
        with suppress(OSError):  # a server that waits no longer may be gone already
            link.sendall(b"GET /v1/domain HTTP/1.1\r\nX: ")
        assert _closed_by_peer(link, while_sending=b"x")


def test_an_answer_that_no_peer_takes_is_not_kept(met: DomainAtWork, monkeypatch: pytest.MonkeyPatch) -> None:
    """A74: a reader that stops reading, in the middle of more than the buffers of both sides hold."""
    monkeypatch.setattr(listener, "READ_S", 0.5)
    host, port = host_and_port(met.address)
    context, plain = pinning_context(met.key.principal), socket.create_connection((host, port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with context.wrap_socket(plain) as link:
        link.settimeout(1)
        with suppress(OSError):  # the server stops reading, too
            link.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 50_000)
        is_gone = select.poll()
        is_gone.register(link.fileno(), 0)  # tells of nothing but the end of a connection
        assert is_gone.poll(PATIENCE_S * 1000)


def _is_closed(link: socket.socket) -> bool:
    """Return whether the other side has closed a connection on which nothing is under way."""
    try:
        return link.recv(1 << 16) == b""
    except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True


def test_strangers_that_hold_connections_keep_no_peer_out(
    met: DomainAtWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A74 A88: they end the handshake of TLS and ask nothing, or ask once and stay; the oldest make room."""
    monkeypatch.setattr(listener, "HEAD_S", 600.0)  # it is the number of them that counts
    host, port = host_and_port(met.address)
    context, held = pinning_context(met.key.principal), list[ssl.SSLSocket]()
    try:
        for number in range(listener.CONNECTIONS_MAX + 8):
            link = context.wrap_socket(socket.create_connection((host, port)))
            held.append(link)
            if number % 2:
                link.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                assert link.recv(1 << 16).startswith(b"HTTP/1.1 200")
        with met.admin() as admin:
            admin.call("GET", "/v1/audit", answer=answers.AuditPage)  # raises unless it is answered
        for link in held:
            link.setblocking(False)
        expected = len(held) - listener.STRANGERS_MAX
        wait_until(lambda: sum(map(_is_closed, held)) >= expected, "the oldest to be sent away")
    finally:
        for link in held:
            link.close()


def _announcing(met: DomainAtWork, run: bytes, how: str) -> bytes:
    """Return the head of a call whose body never comes, or of a long answer that no peer reads."""
    if how == "public":
        return b"GET /v1/domain HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
    if how == "chunked":
        return b"GET /v1/statements HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    if how == "reader":
        return b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 64
    call = ApiCall.of("POST", "/v1/login", body=b"{}")
    signed = authorization(call, met.key.principal, run, system_now(), key_of("stranger"))
    return (
        f"POST /v1/login HTTP/1.1\r\nHost: x\r\nAuthorization: {signed}\r\nContent-Length: 2\r\n\r\n"
    ).encode()


@pytest.mark.parametrize("how", ["public", "chunked", "signed", "reader"])
def test_strangers_whose_calls_never_end_keep_no_peer_out(
    met: DomainAtWork, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A40 A88 A116: more connections than there may be, with a body that never comes or an unread answer."""
    monkeypatch.setattr(listener, "HEAD_S", 600.0)  # it is the number of them that counts
    with met.client("stranger") as stranger:
        run = run_of(stranger.about())
    host, port = host_and_port(met.address)
    context, held = pinning_context(met.key.principal), list[ssl.SSLSocket]()
    try:
        for _ in range(listener.CONNECTIONS_MAX + 8):
            link = context.wrap_socket(socket.create_connection((host, port)))
            held.append(link)
            link.settimeout(1)
            with suppress(OSError):
                link.sendall(_announcing(met, run, how))
        with met.admin() as admin:
            admin.call("GET", "/v1/audit", answer=answers.AuditPage)  # raises unless it is answered
            admin.call("POST", "/v1/facts", ROSTER, answer=answers.News)
    finally:
        for link in held:
            link.close()


@pytest.mark.parametrize("how", ["public", "signed"])
def test_a_body_that_never_comes_is_not_waited_for(
    met: DomainAtWork, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A88 A116: a page without a body refuses one from its head; a caller without a right has little time."""
    with met.client("stranger") as stranger:
        run = run_of(stranger.about())
    monkeypatch.setattr(listener, "HEAD_S", 0.5)
    host, port = host_and_port(met.address)
    with pinning_context(met.key.principal).wrap_socket(socket.create_connection((host, port))) as link:
        link.settimeout(PATIENCE_S)
        link.sendall(_announcing(met, run, how))
        answered = b""
        with suppress(OSError):  # closed, or reset
            while some := link.recv(1 << 16):
                answered += some
    assert answered.startswith(b"HTTP/1.1 413" if how == "public" else b"")
    assert bool(answered) == (how == "public")


def test_handshakes_that_never_end_have_a_bound(met: DomainAtWork, monkeypatch: pytest.MonkeyPatch) -> None:
    """A74 A88: a stranger that only connects has its oldest connections closed, and callers get in."""
    monkeypatch.setattr(listener, "HANDSHAKE_S", 600.0)  # it is the number of them that counts
    host, port = host_and_port(met.address)
    held = [socket.create_connection((host, port)) for _ in range(listener.HALF_OPEN_MAX + 40)]
    try:
        with met.admin() as admin:
            admin.call("GET", "/v1/audit", answer=answers.AuditPage)  # raises unless it is answered
        for link in held:
            link.setblocking(False)
        wait_until(lambda: all(map(_is_closed, held[:40])), "the oldest to be sent away")
    finally:
        for link in held:
            link.close()


# ------------------------------------------------------------ what strangers ask for is cheap


def _with_long_lists(met: DomainAtWork, lists: int, ids: int) -> None:
    """Let the domain have stated so many lists that name so many certificates each."""
    revoked = frozenset(sha256(b"%d" % number).digest() for number in range(ids))

    def state(access: AccessControl) -> None:
        with access._store.transaction() as tables:
            last = tables.find(StatementRow, limit=1, order=StatementRow.c.number, descending=True)[0]
            for number in range(last.number + 1, last.number + 1 + lists):
                said = RevocationList(met.key.principal, number, None, revoked)
                data = statement_to_bytes(sign_statement(said, met.key))
                tables.put(replace(last, number=number, signed=data))

    met.ask(state)


def test_a_history_of_long_lists_is_handed_out_as_it_lies_there(
    met: DomainAtWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A87 A116: public pages take no list apart; an answer ends at so many bytes, and the next goes on."""
    with_an_officer(met)
    _with_long_lists(met, 12, 5_000)
    monkeypatch.setattr(validity_publisher, "statement_from_bytes", None)
    with met.client("stranger") as stranger:
        assert stranger.call("GET", "/v1/statements", answer=answers.StatementPage, is_public=True).items
        found, asked, after = list[bytes](), 0, None
        while after is not None or not asked:
            query = {"limit": 500, "after": after}
            page = stranger.call(
                "GET", "/v1/statements/history", answer=answers.StatementPage, query=query, is_public=True
            )
            assert sum(len(one.statement) for one in page.items[:-1]) <= AccessLimits().page_bytes
            found += [one.statement for one in page.items]
            asked, after = asked + 1, page.next
    numbers = [statement_from_bytes(one).statement.sequence for one in found]
    assert numbers == sorted(set(numbers))
    assert len([one for one in found if len(one) > 100_000]) == 12
    assert asked >= 2


def test_an_act_waits_for_one_call_of_each_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A87 A116: strangers at one address fill the queue; an administrator at another one is next."""
    waiting = list[str | None]()

    class Noted(turns.Turns):
        async def _wait(self, address: str | None) -> None:
            waiting.append(address)
            await super()._wait(address)

    monkeypatch.setattr(calls, "Turns", Noted)
    monkeypatch.setattr(turns, "WAITING_MAX", 8)
    for limit in ("HEAD_S", "READ_S", "HANDSHAKE_S"):
        monkeypatch.setattr(listener, limit, 600.0)  # it is the order of them that counts
    with domain_at_work(tmp_path) as met:
        _fill_the_queue(met, waiting, monkeypatch)


def _fill_the_queue(met: DomainAtWork, waiting: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    done, is_held, blocked = list[str](), threading.Event(), threading.Event()
    access = met.running.service._access
    for name in ("stored_statements", "audit"):
        monkeypatch.setattr(access, name, _noted(getattr(access, name), done))
    holding = threading.Thread(target=met.ask, args=(lambda _: (is_held.set(), blocked.wait(PATIENCE_S)),))
    with met.admin() as admin:
        admin.about()
        admin._run()
        waiting.clear()
        holding.start()
        assert is_held.wait(PATIENCE_S)
        context, (host, port) = pinning_context(met.key.principal), host_and_port(met.address)
        held = list[ssl.SSLSocket]()
        try:
            for number in range(turns.WAITING_MAX + 8):
                plain = socket.create_connection((host, port), source_address=("127.0.0.2", 0))
                held.append(context.wrap_socket(plain))
                held[-1].settimeout(PATIENCE_S)
                held[-1].sendall(b"GET /v1/statements/history HTTP/1.1\r\nHost: x\r\n\r\n")
                wait_until(lambda number=number: len(waiting) >= number, "the call to wait behind the others")
            # Which of the first two was called, and which waits, is the server's choice.
            assert held[2].recv(1 << 16).startswith(b"HTTP/1.1 503"), "the oldest make room"
            acting = threading.Thread(
                target=admin.call, args=("GET", "/v1/audit"), kwargs={"answer": answers.AuditPage}
            )
            acting.start()
            wait_until(lambda: "127.0.0.1" in waiting, "the administrator to wait")
            blocked.set()
            acting.join(PATIENCE_S)
            assert done.index("audit") <= 2, done
        finally:
            blocked.set()
            for link in held:
                link.close()


def _noted(act: Callable[..., object], done: list[str]) -> Callable[..., object]:
    def noted(*words: object, **options: object) -> object:
        done.append(act.__name__)
        return act(*words, **options)

    return noted


def test_a_number_that_no_database_holds_is_a_mistake_of_the_caller(met: DomainAtWork) -> None:
    """A75: one more than the largest number of a row, as the place to read on from."""
    with met.admin() as admin, pytest.raises(MaiaError) as refused:
        admin.call("GET", "/v1/audit", answer=answers.AuditPage, query={"after": 1 << 63})
    assert refused.value.code == "INPUT-API-CALL"
