"""A blanket grant opens types and topics, and nothing that the system itself acts on (A4, A86).

The reserved names are read from the code: one that is added without being
reserved fails here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import maia
from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.endpoints import ENDPOINTS
from maia.credentials import (
    ALL_ACTIONS,
    UNBOUNDED,
    Action,
    AnyResource,
    AuthorisationCertificate,
    Authority,
    Principal,
    ResourceName,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    TopicName,
    TopicPattern,
    TypeName,
    TypePattern,
    issue,
    parse_name_pattern,
)
from maia.credentials.authority import AttributeSet, covers_request, intersect
from maia.credentials.names import is_reserved
from maia.domain.access.results import AdminAct
from maia.errors import MaiaError
from maia.events import AttributeUid
from maia.predicates import parse_predicate
from maia.testing import Issuer
from maia.testing import grant as certify
from maia.types import VALIDITY_TYPE, validity_type_name
from support.domain_server import DomainAtWork, admin_certificate, domain_at_work, key_of
from support.numberplate import Net
from support.police_policy import police_policy

POLICE = key_of("met").principal
WIDE = {
    "any": AnyResource(POLICE),
    "any of anyone": AnyResource(),
    "every topic": TopicPattern(POLICE, parse_name_pattern("*")),
    "every topic below the root": TopicPattern(POLICE, parse_name_pattern("/*")),
    "topics that begin with /admin": TopicPattern(None, parse_name_pattern("/admin*")),
    "topics that end so": TopicPattern(POLICE, parse_name_pattern("*/policy")),
    "topics that contain it": TopicPattern(POLICE, parse_name_pattern("*/admin/*")),
    "every type": TypePattern(POLICE, parse_name_pattern("*"), None),
    "types that begin with maia": TypePattern(POLICE, parse_name_pattern("maia*"), None),
    "types that end so": TypePattern(POLICE, parse_name_pattern("*validity"), None),
}


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DomainAtWork]:
    with domain_at_work(tmp_path_factory.mktemp("met")) as found:
        with found.admin() as admin:
            admin.call("PUT", "/v1/policy", bodies.PolicyBody(police_policy()), answer=answers.PolicyAnswer)
        yield found


def granted(
    issuer: SigningKey, subject: Principal, resources: ResourcePattern, *, delegate: bool = False
) -> SignedCertificate:
    return certify(issuer, subject, resources, *ALL_ACTIONS, may_delegate=delegate)


# ---------------------------------------------------------------- what is reserved


def constants_in(tree: ast.Module) -> dict[str, str]:
    """Return the texts that a module names, such as `VALIDITY_TYPE`."""
    found = {}
    for node in tree.body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        value = node.value if isinstance(node, ast.AnnAssign | ast.Assign) else None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
            found[target.id] = value.value
    return found


@cache
def names_of_the_system() -> frozenset[str]:
    """Return every type and topic that the code itself names: all that is not read from an input."""
    trees = [ast.parse(path.read_text()) for path in Path(maia.__file__).parent.rglob("*.py")
             if "demo" not in path.parts]  # fmt: skip
    constants = {name: text for tree in trees for name, text in constants_in(tree).items()}
    found = {act.topic for act in AdminAct}
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if called not in ("TypeName", "TopicName", "type_id"):
            continue
        named = [one.value for one in call.keywords if one.arg in ("name", "path")]
        for argument in (*call.args[1:2], *named):
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                found.add(argument.value)
            elif isinstance(argument, ast.Name) and argument.id in constants:
                found.add(constants[argument.id])
    return frozenset(found)


def test_every_name_that_the_code_itself_uses_is_reserved() -> None:
    """A4, A86: enumerated from the code; administration and the stream of statements are among them."""
    names = names_of_the_system()
    assert {VALIDITY_TYPE, "/admin/policy", "/admin/audit"} <= names
    assert {name for name in names if not is_reserved(name)} == set()


@pytest.mark.parametrize("wide", WIDE.values(), ids=WIDE)
def test_a_wildcard_covers_no_reserved_name_however_it_is_passed_on(wide: ResourcePattern) -> None:
    """A86: nor does it once a link below it names one exactly."""
    for name in names_of_the_system():
        is_topic = name.startswith("/")
        resource: ResourceName = TopicName(POLICE, name) if is_topic else TypeName(POLICE, name, "0")
        exact = parse_name_pattern(name)
        named = TopicPattern(POLICE, exact) if is_topic else TypePattern(POLICE, exact, None)
        blanket, spelled = Authority(wide, ALL_ACTIONS), Authority(named, ALL_ACTIONS)
        assert not any(covers_request(blanket, action, resource) for action in Action)
        assert covers_request(spelled, Action.SUBSCRIBE, resource)
        assert intersect(blanket, spelled) is None
        assert intersect(spelled, blanket) is None


# ---------------------------------------------------------------- at a broker


def test_a_blanket_grant_publishes_no_statements_of_its_issuer_at_a_broker() -> None:
    """A86: the stream of statements, facts among them, is its issuer's; every peer may still read it."""
    net = Net()
    net.broker()
    issuer, billing = Issuer(net, "CCS"), net.cast.principal("billing office")
    ccs, stream = net.cast.keys["CCS"], validity_type_name(net.cast.principal("CCS"))
    blankets = [granted(ccs, billing, wide) for wide in (AnyResource(ccs.principal), AnyResource())]
    named = granted(ccs, billing, TypePattern(ccs.principal, parse_name_pattern(stream.name), None))
    for shown, is_granted in ((blankets, False), ([named], True)):
        office = net.client("billing office", credentials=(*net.cast.certificates, *shown))
        assert office.was_accepted(office.advertise(event_type=stream)) is is_granted
    reader = net.client("billing office")
    ref = reader.subscribe(event_type=stream)
    assert reader.was_accepted(ref), reader.code_of(ref)
    issuer.vouch(60)
    assert len(reader.events()) == 1


# ---------------------------------------------------------------- over HTTPS


def admin_pages() -> list[tuple[str, str, str]]:
    return [(one.method, one.path, one.right) for one in ENDPOINTS if one.right]


QUESTIONS = {
    ("GET", "/v1/facts"): {"name": "detective"},
    ("GET", "/v1/register/who-can"): {"owner": str(POLICE), "type": "Numberplate", "action": "subscribe"},
}


def refusal(met: DomainAtWork, method: str, path: str, *shown: SignedCertificate) -> str:
    """Ask for a page as the office, with these certificates; return the code of the refusal."""
    # A body is not read before the caller may do it.
    body = None if method == "GET" or path.endswith("/reload") else bodies.Reason("")
    target = (
        path.replace("{id}", "00" * 32).replace("{name}", "detective").replace("{principal}", str(POLICE))
    )
    with met.client("office", *shown) as client, pytest.raises(MaiaError) as refused:
        client.call(method, target, body, answer=answers.PolicyAnswer, query=QUESTIONS.get((method, path)))
    return refused.value.code


@pytest.mark.parametrize(("method", "path", "right"), admin_pages(), ids=str)
def test_the_grant_of_the_readme_administers_nothing(
    met: DomainAtWork, method: str, path: str, right: str
) -> None:
    """A4: each page of the HTTP interface that wants an administrator, with every blanket grant at once."""
    office = key_of("office").principal
    shown = [granted(met.key, office, wide) for wide in WIDE.values()]
    assert refusal(met, method, path, *shown) == "POLICY-NO-CHAIN"


def test_a_blanket_grant_that_may_be_passed_on_administers_nothing(met: DomainAtWork) -> None:
    """A86: its holder names the reserved topic exactly, in a certificate of its own."""
    office = key_of("office")
    blanket = granted(met.key, office.principal, WIDE["any"], delegate=True)
    exact = granted(office, office.principal, TopicPattern(POLICE, parse_name_pattern("/admin/policy")))
    assert refusal(met, "PUT", "/v1/policy", blanket, exact) == "POLICY-NO-CHAIN"
    assert refusal(met, "GET", "/v1/policy", blanket, exact) == "POLICY-NO-CHAIN"


@pytest.mark.parametrize("part", ["attributes", "restriction"])
def test_a_grant_under_terms_that_administration_cannot_keep_administers_nothing(
    met: DomainAtWork, part: str
) -> None:
    """A4: the register has no attributes to hide and no events to restrict, so such a right is none."""
    office = key_of("office").principal
    topic = TopicPattern(POLICE, parse_name_pattern("/admin/*"))
    everything = Authority(topic, ALL_ACTIONS)
    some: AttributeSet = frozenset({AttributeUid("1")})
    authority = {
        "attributes": Authority(topic, ALL_ACTIONS, some),
        "restriction": Authority(topic, ALL_ACTIONS, restriction=parse_predicate('place == "zone 1"')),
    }[part]
    unkept, kept = (
        issue(AuthorisationCertificate(POLICE, office, False, grant, UNBOUNDED), met.key)
        for grant in (authority, everything)
    )
    assert refusal(met, "GET", "/v1/policy", unkept) == "POLICY-NO-CHAIN"
    with met.client("office", kept) as client:
        client.call("GET", "/v1/policy", answer=answers.PolicyAnswer)


def test_the_topics_themselves_are_granted_by_name_or_by_what_is_below_them(met: DomainAtWork) -> None:
    for topic in ("/admin/policy", "/admin/*", "/admin/p*"):
        with met.client("desk", admin_certificate(met.key, key_of("desk").principal, topic)) as client:
            client.call("GET", "/v1/policy", answer=answers.PolicyAnswer)
