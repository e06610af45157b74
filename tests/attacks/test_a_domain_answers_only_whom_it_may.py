"""The HTTP interface of a domain under attack."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.client import DomainClient
from maia.api.endpoints import BODY_BYTES_MAX
from maia.clock import system_now
from maia.credentials import Action, SigningKey
from maia.domain.http import authentication
from maia.domain.server.access_config import AccessConfig
from maia.errors import MaiaError, Refusal
from maia.events import Instant
from maia.net import http_listener as listener
from maia.net.addresses import host_and_port
from maia.net.tls import pinning_context
from maia.wire.api_requests import ApiCall, ApiRequest, api_request_to_bytes, sign_api_request
from support.domain_server import PATIENCE_S, DomainAtWork, admin_certificate, domain_at_work, key_of
from support.police_policy import police_policy

POLICY = police_policy()
SECOND = 1_000_000


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DomainAtWork]:
    with domain_at_work(tmp_path_factory.mktemp("met")) as found:
        with found.admin() as admin:
            admin.call("PUT", "/v1/policy", bodies.PolicyBody(POLICY), answer=answers.PolicyAnswer)
            for who in ("smith", "jones"):
                row = bodies.FactBody(
                    "detective", [bodies.TypedArgument(principal=str(key_of(who).principal))]
                )
                admin.call("POST", "/v1/facts", row, answer=answers.News)
        yield found


def raw(met: DomainAtWork) -> httpx.Client:
    return httpx.Client(
        base_url=f"https://{met.address}",
        verify=pinning_context(met.key.principal),
        timeout=PATIENCE_S,
        trust_env=False,
    )


def signed(
    met: DomainAtWork,
    key: SigningKey,
    call: ApiCall,
    *,
    audience: SigningKey | None = None,
    at: Instant | None = None,
) -> str:
    with DomainClient(met.address, domain=met.key.principal, key=key) as client:
        instance = bytes.fromhex(client.about().instance)
    whom = met.key if audience is None else audience
    request = ApiRequest(whom.principal, instance, call, at or system_now(), os.urandom(16))
    return "Maia " + base64.b64encode(api_request_to_bytes(sign_api_request(request, key))).decode()


LOGIN = b'{"shown":[]}'
LOGIN_CALL = ApiCall.of("POST", "/v1/login", body=LOGIN)


def code(response: httpx.Response) -> str:
    found = response.json()["code"]
    assert isinstance(found, str)
    return found


def test_a_login_for_one_domain_is_refused_by_another(met: DomainAtWork) -> None:
    """A18: a request that was signed for the court is replayed at the Met."""
    with raw(met) as http:
        header = signed(met, key_of("smith"), LOGIN_CALL, audience=key_of("court"))
        refused = http.post("/v1/login", content=LOGIN, headers={"Authorization": header})
        assert (refused.status_code, code(refused)) == (401, "REQUEST-ANOTHER-DOMAIN")


def test_a_login_is_accepted_once_and_in_its_time(met: DomainAtWork) -> None:
    """A18, A78: the same bytes again."""
    with raw(met) as http:
        header = {"Authorization": signed(met, key_of("smith"), LOGIN_CALL)}
        assert http.post("/v1/login", content=LOGIN, headers=header).status_code == 200
        assert code(http.post("/v1/login", content=LOGIN, headers=header)) == "REQUEST-REPLAYED"


def test_a_call_is_accepted_for_a_minute_before_and_after_and_no_longer(tmp_path: Path) -> None:
    """A18, A78: too late and too early, at a domain whose clock stands still."""
    now, call = system_now(), ApiCall.of("GET", "/v1/types", body=b"")
    with domain_at_work(tmp_path, clock=lambda: now) as still, raw(still) as http:
        for seconds, expected in ((-61, "REQUEST-TOO-LATE"), (-60, ""), (60, ""), (61, "REQUEST-TOO-EARLY")):
            at = Instant(now + seconds * SECOND)
            header = {"Authorization": signed(still, key_of("smith"), call, at=at)}
            answered = http.get("/v1/types", headers=header)
            assert answered.json().get("code", "") == expected


def test_what_was_signed_is_what_is_done(met: DomainAtWork) -> None:
    """A18: a signed request with another body, path, query, method, certificate or key."""
    call = ApiCall.of("GET", "/v1/types?limit=1", body=b"")
    certificate = {"Maia-Credentials": "AAAA"}
    with raw(met) as http:
        for method, path, extra in (
            ("GET", "/v1/types?limit=2", {}),
            ("GET", "/v1/types", {}),
            ("GET", "/v1/audit?limit=1", {}),
            ("GET", "/v1/types?limit=1", certificate),
            ("GET", "/v1/types?limit=1", {"Idempotency-Key": "mine"}),
        ):
            header = {"Authorization": signed(met, key_of("smith"), call), **extra}
            assert code(http.request(method, path, headers=header)) == "REQUEST-ALTERED"
        header = {"Authorization": signed(met, key_of("smith"), call)}
        assert (
            code(http.request("GET", "/v1/types?limit=1", content=b"x", headers=header)) == "REQUEST-ALTERED"
        )


def test_after_a_restart_nothing_that_was_received_before_is_accepted_again(tmp_path: object) -> None:
    """A82: a request from before the restart, dated ahead so that its time would still fit."""
    ahead = lambda: Instant(system_now() + 50 * SECOND)  # noqa: E731 - a caller whose clock is ahead
    with domain_at_work(tmp_path) as first:  # type: ignore[arg-type]
        call = ApiCall.of("GET", "/v1/types", body=b"")
        header = {"Authorization": signed(first, key_of("smith"), call, at=ahead())}
        with raw(first) as http:
            assert http.get("/v1/types", headers=header).status_code == 200
    with domain_at_work(tmp_path) as second, raw(second) as http:  # type: ignore[arg-type]
        refused = http.get("/v1/types", headers=header)
        assert (refused.status_code, code(refused)) == (401, "REQUEST-ANOTHER-RUN")


def test_no_peer_learns_the_rights_of_others(met: DomainAtWork) -> None:
    """A38: register, rights, memberships, who-can, audit and policy are checked as the caller."""
    jones = key_of("jones").principal
    with met.client("jones") as client:
        client.call("POST", "/v1/login", bodies.LoginBody(), answer=answers.WalletAnswer)
    with met.client("smith") as smith:
        mine = smith.call(
            "GET", f"/v1/principals/{key_of('smith').principal}/rights", answer=answers.EntryPage
        )
        assert all(one.subject == str(key_of("smith").principal) for one in mine.items)
        for method, path, body in (
            ("GET", f"/v1/principals/{jones}/rights", None),
            ("GET", f"/v1/principals/{jones}/memberships", None),
            ("GET", "/v1/register", None),
            ("GET", "/v1/register/who-can?action=subscribe&type=Numberplate", None),
            ("POST", "/v1/register/would-be-able", bodies.WouldBody("officer")),
            ("GET", "/v1/audit", None),
            ("GET", "/v1/audit/head", None),
            ("GET", "/v1/facts?name=detective", None),
            ("GET", "/v1/policy", None),
        ):
            with pytest.raises(Refusal) as refused:
                smith.call(method, path, body, answer=answers.News)
            assert "jones" not in refused.value.message
            assert str(jones) not in refused.value.message


def test_a_reader_of_the_register_changes_nothing(met: DomainAtWork) -> None:
    """A38: SUBSCRIBE on a topic reads; only PUBLISH changes."""
    key = key_of("reader")
    reads = admin_certificate(met.key, key.principal, "/admin/*", frozenset({Action.SUBSCRIBE}))
    with met.client("reader", reads) as reader:
        assert reader.call("GET", "/v1/register", answer=answers.EntryPage)
        for method, path, body in (
            ("PUT", "/v1/policy", bodies.PolicyBody(POLICY)),
            ("POST", "/v1/facts", bodies.FactBody("detective", [str(key.principal)])),
            ("POST", "/v1/revocations", bodies.Revocation(["00" * 32])),
            ("POST", "/v1/held", bodies.CertificatesBody([b"x"])),
        ):
            with pytest.raises(MaiaError) as refused:
                reader.call(method, path, body, answer=answers.News)
            assert refused.value.code.startswith(("POLICY-", "CREDENTIAL-", "INPUT-"))


def test_an_administrator_of_another_domain_is_none_here(met: DomainAtWork) -> None:
    """A38: the court's own certificates over its own topics open nothing at the Met."""
    court = key_of("court")
    foreign = admin_certificate(court, key_of("judge").principal)
    with met.client("judge", foreign) as judge, pytest.raises(Refusal):
        judge.call("PUT", "/v1/policy", bodies.PolicyBody(POLICY), answer=answers.PolicyAnswer)


def test_a_stolen_certificate_without_its_key_opens_nothing(met: DomainAtWork) -> None:
    """A22: a peer shows the administrator's certificate as its own."""
    stolen = admin_certificate(met.key, key_of("admin").principal)
    with met.client("thief", stolen) as thief, pytest.raises(Refusal):
        thief.call("GET", "/v1/audit", answer=answers.AuditPage)


def test_an_answer_of_the_first_time_is_not_given_to_who_may_no_more(met: DomainAtWork) -> None:
    """A35, A38: an idempotency key does not outlive the right that it was used with."""
    row = bodies.FactBody("detective", [bodies.TypedArgument(principal=str(key_of("x").principal))])
    with met.admin("clerk") as clerk:
        clerk.call("POST", "/v1/facts", row, answer=answers.News, once="again")
    with met.client("clerk") as clerk, pytest.raises(Refusal):
        clerk.call("POST", "/v1/facts", row, answer=answers.News, once="again")


def test_who_may_no_more_is_not_told_again_what_it_ended_or_registered(met: DomainAtWork) -> None:
    """A35, A38: nor where the right is asked for only because the matter is another peer's."""
    with met.client("smith") as smith:
        wallet = smith.call("POST", "/v1/login", bodies.LoginBody([]), answer=answers.WalletAnswer)
    passed_on = bodies.DelegationBody(wallet.rights[0].certificate)
    end = f"/v1/memberships/{wallet.memberships[0].membership.id}/end"
    with met.admin("clerk") as clerk:
        clerk.call("POST", "/v1/delegations", passed_on, answer=answers.EntryAnswer, once="noted")
        clerk.call("POST", end, bodies.Reason("over"), answer=answers.RevokedAnswer, once="ended")
    with met.client("clerk") as clerk:
        with pytest.raises(Refusal):
            clerk.call("POST", "/v1/delegations", passed_on, answer=answers.EntryAnswer, once="noted")
        with pytest.raises(Refusal):
            clerk.call("POST", end, bodies.Reason("over"), answer=answers.RevokedAnswer, once="ended")


def test_bodies_headers_and_silence_are_bounded(met: DomainAtWork, monkeypatch: pytest.MonkeyPatch) -> None:
    """A74: a body without end, a head without end, a connection that says nothing."""
    with raw(met) as http:
        header = {"Authorization": signed(met, key_of("smith"), LOGIN_CALL)}
        large = http.post("/v1/login", content=b" " * (BODY_BYTES_MAX + 1), headers=header)
        assert (large.status_code, code(large)) == (413, "INPUT-API-TOO-LARGE")
        many = http.get("/v1/types", headers={**header, "Maia-Credentials": "A" * (60 << 10)})
        assert many.status_code in (400, 401, 413)
    monkeypatch.setattr(listener, "HEAD_S", 0.5)
    host, port = host_and_port(met.address)
    context = pinning_context(met.key.principal)
    with socket.create_connection((host, port)) as plain, context.wrap_socket(plain) as silent:
        silent.settimeout(PATIENCE_S)
        assert silent.recv(1) == b"", "a connection that sends no request is closed"


def test_malformed_calls_never_end_in_a_mistake_of_ours(met: DomainAtWork) -> None:
    """A74: whatever is sent ends in one of our codes, and the server goes on."""
    bodies_sent = (
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"shown":1}',
        b'{"shown":["!!"]}',
        b'{"shown":["AAAA"]}',
        b"\xff",
    )
    bodies_sent += (b"[" * 100_000, json.dumps({"shown": ["AAAA"] * 65}).encode(), b'{"x":1}')
    with raw(met) as http:
        for body in bodies_sent:
            call = ApiCall.of("POST", "/v1/login", body=body)
            header = {"Authorization": signed(met, key_of("smith"), call)}
            answered = http.post("/v1/login", content=body, headers=header)
            assert 400 <= answered.status_code < 500, body[:40]
        for word in ("", "Maia", "Maia !", "Bearer x", "Maia " + "A" * 20_000, "Maia AAAA"):
            answered = http.get("/v1/types", headers={"Authorization": word})
            assert 400 <= answered.status_code < 500, word[:40]
        for path in (
            "/v1/principals/x/rights",
            "/v1/memberships/zz/rights",
            "/v1/%2e%2e/policy",
            "/v1/types?after=x",
        ):
            method = "POST" if path.startswith("/v1/memberships") else "GET"
            call = ApiCall.of(method, path, body=b"")
            header = {"Authorization": signed(met, key_of("smith"), call)}
            assert http.request(method, path, headers=header).status_code < 500, path
    assert not [fields for event, fields in met.records.notes if event == "failed"]


def test_tls_1_2_and_plain_text_are_refused(met: DomainAtWork) -> None:
    """A9: an older protocol, or none."""
    host, port = host_and_port(met.address)
    context = pinning_context(met.key.principal)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection((host, port)) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain)
    with socket.create_connection((host, port)) as plain:
        plain.settimeout(PATIENCE_S)
        with suppress(ConnectionError):  # a peer that is hung up on receives nothing either
            plain.sendall(b"GET /v1/domain HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"principal" not in plain.recv(1000)


def test_one_principal_cannot_keep_the_server_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A77: requests of one principal are bounded within the window; others go on."""
    monkeypatch.setattr(authentication, "REQUESTS_PER_PRINCIPAL_MAX", 3)
    with domain_at_work(tmp_path, config=AccessConfig(api_listen="127.0.0.1:0")) as busy:
        with busy.client("smith") as smith:
            for _ in range(3):
                smith.call("GET", "/v1/types", answer=answers.TypePage)
            with pytest.raises(MaiaError) as refused:
                smith.call("GET", "/v1/types", answer=answers.TypePage)
        assert refused.value.code == "REQUEST-TOO-MANY"
        with busy.client("jones") as jones:
            assert jones.call("GET", "/v1/types", answer=answers.TypePage).items == []
