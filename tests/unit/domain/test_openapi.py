"""The OpenAPI document of a domain is one, and the interface does what the document says.

Every operation is driven from its own schemas, with an administrator's rights
so that input reaches the pages: whatever comes, the answer has a documented
status and shape, and is never a failure that nobody foresaw.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from maia.api.client import DomainClient
from maia.clock import system_now
from maia.domain.http import authentication
from maia.domain.http.openapi import openapi_document
from maia.domain.server.access_config import AccessConfig
from maia.net.tls import pinning_context
from support.domain_server import PATIENCE_S, DomainAtWork, admin_certificate, domain_at_work, key_of
from support.json_schemas import admitted, mutilated
from support.random_cases import usually
from support.tested_rights import POLICY, logged_in, make_known

EXAMPLES = usually(4, laws=10)


DOCUMENT = openapi_document()
SCHEMAS = DOCUMENT["components"]["schemas"]
PLACE = "urn:maia:schemas"
DEFINED = (
    Registry()
    .with_resource(PLACE, DRAFT202012.create_resource({"components": DOCUMENT["components"]}))
    .crawl()
)
OPERATIONS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]
LIKELY: Mapping[str, list[str]] = {
    "holder": [str(key_of("smith").principal)],
    "principal": [str(key_of("smith").principal), str(key_of("admin").principal)],
    "name": ["detective", "licence", "clerk"],
    "role": ["officer", "reader"],
    "type": ["Numberplate"],
    "action": ["subscribe", "publish"],
    "attribute": ["location"],
    "not_before": ["unbounded", "2026-11-15T08:30:00Z"],
    "not_after": ["unbounded", "2099-01-01T00:00:00Z"],
    "timestamp": ["2026-11-15T08:30:00Z"],
    "at": ["2026-11-15T08:30:00Z"],
    "standing_at": ["now", "2026-11-15T08:30:00Z"],
    "text": [POLICY, "policy"],
    "id": ["00" * 32],
}


class Raw(DomainClient):
    """An administrator whose calls are answered with whatever came back."""

    def _sent(self, method, target, content, headers, answer):  # type: ignore[no-untyped-def]
        if "Authorization" not in headers:
            return super()._sent(method, target, content, headers, answer)
        return self._http.request(method, target, content=content, headers=dict(headers))

    def made(self, method: str, target: str, content: bytes = b"") -> httpx.Response:
        headers = self._headers(method.upper(), target, content, "")
        return self._sent(method.upper(), target, content, headers, object)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DomainAtWork]:
    config = AccessConfig(api_listen="127.0.0.1:0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authentication, "REQUESTS_PER_PRINCIPAL_MAX", 1_000_000)
        with domain_at_work(tmp_path_factory.mktemp("met"), config=config) as found:
            with found.admin() as admin:
                make_known(admin)
            yield found


@pytest.fixture(scope="module")
def raw(met: DomainAtWork) -> Iterator[Raw]:
    right = admin_certificate(met.key, key_of("admin").principal, now=system_now())
    with Raw(met.address, domain=met.key.principal, key=key_of("admin"), credentials=[right]) as client:
        yield client


def validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    """Return what checks a schema; those that it refers to are walked through once and not each time."""
    elsewhere = json.dumps(schema).replace('"#/components/', f'"{PLACE}#/components/')
    return Draft202012Validator(json.loads(elsewhere), registry=DEFINED)


def check(operation: Mapping[str, Any], response: httpx.Response) -> None:
    """The status is one of those in the document, the body what it says of it, and nothing is unforeseen."""
    status, documented = str(response.status_code), operation["responses"]
    told = f"{status} {response.text[:500]}"
    assert status != "500", told
    found = documented.get(status) or documented.get(f"{status[0]}XX")
    assert found is not None, told
    ((kind, said),) = found["content"].items()
    assert response.headers["content-type"] == kind, told
    problems = list(validator(said["schema"]).iter_errors(response.json()))
    assert not problems, f"{told}: {problems[0].message}"


def path_of(path: str, word: str) -> str:
    head, brace, rest = path.partition("{")
    return head + quote(word, safe="") + rest.partition("}")[2] if brace else path


def queries(operation: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    asked = [one for one in operation["parameters"] if one["in"] == "query"]
    return st.fixed_dictionaries(
        {one["name"]: value(one) for one in asked if one["required"]},
        optional={one["name"]: value(one) for one in asked if not one["required"]},
    )


def value(parameter: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    return admitted(
        {"type": "object", "properties": {parameter["name"]: parameter["schema"]}}, SCHEMAS, LIKELY
    ).map(lambda found: found.get(parameter["name"]))


def words(path: str) -> st.SearchStrategy[str]:
    likely = next((LIKELY.get(name, []) for name in ("id", "principal", "name") if f"{{{name}}}" in path), [])
    chance = st.text(st.characters(codec="utf-8"), min_size=1, max_size=70).filter(
        lambda one: one not in ".."
    )
    return st.one_of(*map(st.just, likely), chance)


def target_of(path: str, word: str, query: Mapping[str, Any]) -> str:
    said = {name: one for name, one in query.items() if one is not None}
    return path_of(path, word) + ("?" + urlencode(said) if said else "")


def body_schema(operation: Mapping[str, Any]) -> Mapping[str, Any] | None:
    content = operation.get("requestBody", {}).get("content", {})
    return content["application/json"]["schema"] if content else None


def test_the_document_is_what_the_standard_calls_one(met: DomainAtWork):
    with httpx.Client(verify=pinning_context(met.key.principal), trust_env=False, timeout=PATIENCE_S) as http:
        served = http.get(f"https://{met.address}/openapi.json").json()
    assert list(OpenAPIV31SpecValidator(served).iter_errors()) == []
    assert served == json.loads(json.dumps(DOCUMENT))


def test_a_document_with_a_mistake_would_be_found():
    wrong = json.loads(json.dumps({**DOCUMENT, "paths": {"/v1/domain": DOCUMENT["paths"]["/v1/domain"]}}))
    assert not list(OpenAPIV31SpecValidator(wrong).iter_errors())
    wrong["paths"]["/v1/domain"]["get"]["responses"]["200"].pop("description")
    assert list(OpenAPIV31SpecValidator(wrong).iter_errors())


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_what_the_schema_admits_is_answered_as_documented(
    raw: Raw, path: str, method: str, data: st.DataObject
):
    operation = DOCUMENT["paths"][path][method]
    schema = body_schema(operation)
    body = b"" if schema is None else json.dumps(data.draw(admitted(schema, SCHEMAS, LIKELY))).encode()
    target = target_of(path, data.draw(words(path)), data.draw(queries(operation)))
    is_public = operation.get("security") == []
    response = raw._http.get(target) if is_public else raw.made(method, target, body)
    check(operation, response)


@pytest.mark.parametrize(
    ("path", "method"), [one for one in OPERATIONS if body_schema(DOCUMENT["paths"][one[0]][one[1]])]
)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_what_the_schema_does_not_admit_is_refused_as_documented(
    raw: Raw, path: str, method: str, data: st.DataObject
):
    operation = DOCUMENT["paths"][path][method]
    schema = body_schema(operation)
    assert schema is not None
    body = data.draw(mutilated(admitted(schema, SCHEMAS, LIKELY)))
    response = raw.made(method, target_of(path, data.draw(words(path)), {}), json.dumps(body).encode())
    check(operation, response)
    if not validator(schema).is_valid(body):
        assert 400 <= response.status_code < 500, (body, response.text)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_bytes_that_are_no_json_and_calls_without_a_signature_are_refused(raw: Raw, path: str, method: str):
    operation = DOCUMENT["paths"][path][method]
    target = path_of(path, "00" * 32)
    if operation.get("security") == []:
        response = raw._http.request(method, target, content=b"\xff{")
        check(operation, response)
        assert response.status_code == 413, "a public page takes no body"
        return
    unsigned = raw._http.request(method, target)
    check(operation, unsigned)
    assert unsigned.status_code == 401
    for content in (b"\xff", b"{", b"", b"[" * 100_000, b'{"a":1}{'):
        response = raw.made(method, target, content)
        check(operation, response)
        if "requestBody" in operation:
            assert 400 <= response.status_code < 500


def test_whatever_takes_something_away_says_that_no_broker_has_heard_of_it(raw: Raw, met: DomainAtWork):
    """There is no broker in this test, so each of these answers 202, which the document has."""

    def took_away(path: str, word: str = "", method: str = "post", **body: object) -> dict[str, Any]:
        response = raw.made(method, path_of(path, word), json.dumps(body).encode())
        assert response.status_code == 202, response.text
        check(DOCUMENT["paths"][path][method], response)
        return response.json()

    smith = {"principal": str(key_of("smith").principal)}
    given = {"name": "detective", "arguments": [smith]}
    raw.made("post", "/v1/facts", json.dumps(given).encode())
    assert took_away("/v1/revocations", ids=[logged_in(met).rights[0].id])["ids"]
    assert took_away("/v1/memberships/{id}/end", logged_in(met).memberships[0].membership.id)["memberships"]
    logged_in(met)
    assert took_away("/v1/facts/retraction", **given)["ids"]
    raw.made("post", "/v1/facts", json.dumps(given).encode())
    logged_in(met)
    assert took_away("/v1/facts/{name}", "detective", "put", rows=[])["ids"]
    raw.made("post", "/v1/facts", json.dumps(given).encode())
    logged_in(met)
    less = POLICY.replace("while detective(holder)", "while detective(holder)\n    while clerk(holder)")
    took_away("/v1/policy", "", "put", text=less)
    raw.made("put", "/v1/policy", json.dumps({"text": POLICY}).encode())
