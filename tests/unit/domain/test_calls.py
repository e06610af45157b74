"""The HTTP interface of a domain, over TLS, as callers meet it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.client import DomainClient, new_once
from maia.credentials import certificate_from_bytes
from maia.domain.server.access_config import AccessConfig
from maia.errors import BadInput, MaiaError, Refusal
from maia.net.tls import pinning_context
from maia.testing.refusals import raises
from support.domain_server import PATIENCE_S, DomainAtWork, admin_certificate, domain_at_work, key_of

POLICY = """
policy "Police"
fact detective(who: principal)
fact on_duty(who: principal, shift: string)
appointment licence(kind: string) by here
role officer(shift: string)
rule officer(shift)
    while detective(holder)
    while on_duty(holder, shift)
    for 1 day
role driver(kind: string)
rule driver(kind)
    while licence(kind)
    until the licence ends
grant officer(_)
    may subscribe to topic "/calls" of here
grant driver(_)
    may publish topic "/rides" of here
end
"""


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DomainAtWork]:
    with domain_at_work(tmp_path_factory.mktemp("met")) as found:
        with found.admin() as admin:
            admin.call("PUT", "/v1/policy", bodies.PolicyBody(POLICY), answer=answers.PolicyAnswer)
        yield found


def principal_word(who: str) -> bodies.TypedArgument:
    return bodies.TypedArgument(principal=str(key_of(who).principal))


def make_officer(met: DomainAtWork, who: str, shift: str = "night") -> None:
    with met.admin() as admin:
        for fact in (
            bodies.FactBody("detective", [principal_word(who)]),
            bodies.FactBody("on_duty", [principal_word(who), shift]),
        ):
            admin.call("POST", "/v1/facts", fact, answer=answers.News)


def login(client: DomainClient, *shown: bytes) -> answers.WalletAnswer:
    return client.call("POST", "/v1/login", bodies.LoginBody(list(shown)), answer=answers.WalletAnswer)


def code_of(act: object) -> str:
    with pytest.raises(MaiaError) as refused:
        act()  # type: ignore[operator]
    return refused.value.code


def test_whoever_fulfils_a_rule_gets_its_role_and_its_right_at_login(met: DomainAtWork) -> None:
    make_officer(met, "smith")
    with met.client("smith") as smith:
        wallet = login(smith)
    assert [one.membership.role for one in wallet.memberships] == ["officer"]
    assert [one.membership.arguments for one in wallet.memberships] == [["night"]]
    assert len(wallet.rights) == 1
    assert wallet.statements, "the list that holds now comes along"
    assert wallet.renew_before is not None


def test_whoever_fulfils_none_is_refused(met: DomainAtWork) -> None:
    with met.client("nobody") as nobody:
        assert code_of(lambda: login(nobody)) == "REFUSED-LOGIN"


def test_a_retracted_fact_takes_the_role_and_the_right_with_it(met: DomainAtWork) -> None:
    make_officer(met, "jones", "day")
    with met.client("jones") as jones, met.admin() as admin:
        wallet = login(jones)
        row = bodies.FactBody("on_duty", [principal_word("jones"), "day"])
        fallen = admin.call("POST", "/v1/facts/retraction", row, answer=answers.RevokedAnswer)
        assert [one.role for one in fallen.memberships] == ["officer"]
        assert {one.id for one in wallet.rights} <= set(fallen.ids)
        assert fallen.statement is not None
        assert admin.last.is_published is False, "this domain has no broker, and says so"
        assert code_of(lambda: login(jones)) == "REFUSED-LOGIN"


def test_an_appointment_is_shown_and_falls_when_it_is_taken_back(met: DomainAtWork) -> None:
    valid = bodies.Period("unbounded", "2099-01-01T00:00:00Z")
    body = bodies.Appointing(str(key_of("driver").principal), "licence", valid, ["lorry"])
    with met.admin() as admin, met.client("driver") as driver:
        given = admin.call("POST", "/v1/appointments", body, answer=answers.AppointmentAnswer)
        wallet = login(driver, given.certificate)
        assert [one.membership.role for one in wallet.memberships] == ["driver"]
        path = f"/v1/appointments/{given.id}/revocation"
        fallen = admin.call("POST", path, bodies.Reason("lost it"), answer=answers.RevokedAnswer)
        assert given.id in fallen.ids
        assert code_of(lambda: login(driver, given.certificate)) == "REFUSED-LOGIN"


def test_a_call_with_the_same_key_is_done_once(met: DomainAtWork) -> None:
    once, valid = new_once(), bodies.Period("unbounded", "2099-01-01T00:00:00Z")
    body = bodies.Appointing(str(key_of("smith").principal), "licence", valid, ["car"])
    with met.admin() as admin:
        first, again = (
            admin.call("POST", "/v1/appointments", body, answer=answers.AppointmentAnswer, once=once)
            for _ in range(2)
        )
        other = msgspec.structs.replace(body, parameters=["bus"])
        assert first == again
        refused = code_of(
            lambda: admin.call("POST", "/v1/appointments", other, answer=answers.AppointmentAnswer, once=once)
        )
        without = admin.call("POST", "/v1/appointments", body, answer=answers.AppointmentAnswer)
    assert refused == "INPUT-IDEMPOTENCY-KEY"
    assert without.id != first.id


def test_somebody_elses_key_is_not_answered_with_my_answer(met: DomainAtWork) -> None:
    once, row = new_once(), bodies.FactBody("on_duty", [principal_word("x"), "early"])
    with met.admin("one") as one, met.admin("two") as two:
        assert one.call("POST", "/v1/facts", row, answer=answers.News, once=once).is_news
        assert not two.call("POST", "/v1/facts", row, answer=answers.News, once=once).is_news


def test_long_answers_come_in_pages(met: DomainAtWork) -> None:
    rows = [[principal_word(f"p{number}"), "late"] for number in range(25)]
    with met.admin() as admin:
        admin.call("PUT", "/v1/facts/on_duty", bodies.FactRows(rows), answer=answers.RevokedAnswer)
        found, after, pages = [], None, 0
        while pages == 0 or after is not None:
            query = {"name": "on_duty", "limit": 10, "after": after}
            page = admin.call("GET", "/v1/facts", answer=answers.FactPage, query=query)
            found, after, pages = found + page.items, page.next, pages + 1
    assert pages == 3
    assert len(found) == len({str(row) for row in found}) == 25


def test_a_wrong_policy_is_refused_with_every_mistake_and_changes_nothing(met: DomainAtWork) -> None:
    wrong = 'policy "x"\nrole a(b: strng)\nrule c(d)\n    while e(f)\nend\n'
    with met.admin() as admin:
        before = admin.call("GET", "/v1/policy", answer=answers.PolicyAnswer)
        with pytest.raises(BadInput) as refused:
            admin.call("PUT", "/v1/policy", bodies.PolicyBody(wrong), answer=answers.PolicyAnswer)
        after = admin.call("GET", "/v1/policy", answer=answers.PolicyAnswer)
    problems = refused.value.as_record()["problems"]
    assert isinstance(problems, list)
    assert {one["line"] for one in problems} >= {2, 3}
    assert before == after


def test_errors_are_problem_details(met: DomainAtWork) -> None:
    with httpx.Client(verify=pinning_context(met.key.principal), trust_env=False, timeout=PATIENCE_S) as http:
        for path, status, code in (
            ("/v1/policy", 401, "REQUEST-UNSIGNED"),
            ("/nowhere", 404, "INPUT-API-NO-SUCH-PAGE"),
            ("/v1/statements/history?limit=none", 422, "INPUT-API-CALL"),
            ("/v1/statements/history?limit=1&limit=2", 422, "INPUT-API-CALL"),
        ):
            response = http.get(f"https://{met.address}{path}")
            assert (response.status_code, response.json()["code"]) == (status, code)
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["status"] == status
            assert response.headers["cache-control"] == "no-store"


def test_the_document_lists_every_page_with_what_goes_in_and_out(met: DomainAtWork) -> None:
    with httpx.Client(verify=pinning_context(met.key.principal), trust_env=False, timeout=PATIENCE_S) as http:
        found = http.get(f"https://{met.address}/openapi.json").json()
    assert found["openapi"] == "3.1.0"
    operations = [one for methods in found["paths"].values() for one in methods.values()]
    assert len(operations) == len({one["operationId"] for one in operations}) >= 30
    schemas = found["components"]["schemas"]
    named = {word for word in str(found).split("'") if word.startswith("#/components/schemas/")}
    assert {word.rpartition("/")[2] for word in named} <= schemas.keys()
    assert found["paths"]["/v1/policy"]["put"]["x-maia-right"]["topic"] == "/admin/policy"
    assert found["paths"]["/v1/domain"]["get"]["security"] == []


def test_a_caller_talks_to_the_domain_that_it_means_and_to_nobody_else(met: DomainAtWork) -> None:
    with (
        DomainClient(met.address, domain=key_of("court").principal, key=key_of("smith")) as client,
        raises("CREDENTIAL-ANOTHER-DOMAIN"),
    ):
        client.about()


def test_an_operator_reads_who_was_refused_and_nothing_that_came_along(met: DomainAtWork) -> None:
    met.records.notes.clear()
    facts_only = admin_certificate(met.key, key_of("curious").principal, "/admin/facts")
    with met.client("curious", facts_only) as curious, pytest.raises(Refusal):
        curious.call("GET", "/v1/audit", answer=answers.AuditPage)
    with httpx.Client(verify=pinning_context(met.key.principal), trust_env=False, timeout=PATIENCE_S) as http:
        http.get(f"https://{met.address}/v1/audit")
    signed, unsigned = [fields for event, fields in met.records.notes if event == "refused"]
    assert signed.keys() == {"code", "page", "principal"}
    assert (signed["page"], signed["principal"]) == ("GET /v1/audit", str(key_of("curious").principal))
    assert unsigned == {"code": "REQUEST-UNSIGNED", "page": "GET /v1/audit"}


def test_each_page_wants_its_own_right(met: DomainAtWork) -> None:
    facts_only = admin_certificate(met.key, key_of("clerk").principal, "/admin/facts")
    row = bodies.FactBody("detective", [principal_word("clerk")])
    with met.client("clerk", facts_only) as clerk:
        clerk.call("POST", "/v1/facts", row, answer=answers.News)
        for method, path, body in (
            ("GET", "/v1/policy", None),
            ("GET", "/v1/audit", None),
            ("GET", "/v1/register", None),
            ("GET", "/v1/appointments", None),
            ("PUT", "/v1/policy", bodies.PolicyBody("policy 'x'\nend\n")),
            ("POST", "/v1/revocations", bodies.Revocation(["00" * 32])),
        ):
            with pytest.raises(Refusal):
                clerk.call(method, path, body, answer=answers.News)


def test_a_member_ends_its_own_membership_and_nobody_elses(met: DomainAtWork) -> None:
    make_officer(met, "brown", "noon")
    with met.client("brown") as brown, met.client("green") as green:
        membership = login(brown).memberships[0].membership.id
        path = f"/v1/memberships/{membership}/end"
        with pytest.raises(Refusal):
            green.call("POST", path, bodies.Reason(), answer=answers.RevokedAnswer)
        assert brown.call("POST", path, bodies.Reason(), answer=answers.RevokedAnswer).memberships
        assert code_of(lambda: green.call("POST", path, bodies.Reason(), answer=answers.News)) != "INTERNAL"


def test_a_member_that_lost_the_answer_to_its_farewell_is_given_it_again(met: DomainAtWork) -> None:
    make_officer(met, "white", "dusk")
    with met.client("white") as white:
        path, once = f"/v1/memberships/{login(white).memberships[0].membership.id}/end", new_once()
        first, again = (
            white.call("POST", path, bodies.Reason(), answer=answers.RevokedAnswer, once=once) for _ in "12"
        )
    assert first == again
    assert [one.role for one in first.memberships] == ["officer"]


def test_certificates_say_where_statements_can_be_asked_for(tmp_path: Path) -> None:
    config = AccessConfig(api_listen="127.0.0.1:0", api_public="met.example:7600")
    with domain_at_work(tmp_path, config=config) as found:
        with found.admin() as admin:
            admin.call("PUT", "/v1/policy", bodies.PolicyBody(POLICY), answer=answers.PolicyAnswer)
        make_officer(found, "smith")
        with found.client("smith") as smith:
            wallet = login(smith)
    said = certificate_from_bytes(wallet.rights[0].certificate).certificate
    assert [test.locations for test in said.validity.tests] == [("https://met.example:7600/v1/statements",)]
