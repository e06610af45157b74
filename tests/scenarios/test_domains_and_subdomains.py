"""Domains, sub-domains to any depth, blanket capabilities and broker groups (dissertation, 3.2 and 5.1)."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from itertools import pairwise

import pytest

from maia.credentials import (
    Action,
    NetworkName,
    NetworkPattern,
    ResourcePattern,
    SignedCertificate,
    SigningKey,
    TypeName,
    TypePattern,
    Validity,
    exact_name,
)
from maia.events import Attribute, Instant, Kind, attribute_uid
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence
from maia.testing import grant
from maia.types import TypeDefinition, VerifiedType, sign_definition, verify_definition
from support.handed_down import BrokerGroup, DomainGroup, HandedDown, Manner, hand_down

NOON = Instant.parse("2026-11-15T12:00:00Z")
VALID = Validity(Instant.parse("2026-11-01T00:00:00Z"), Instant.parse("2026-12-01T00:00:00Z"))

# The organisation of figure 5.4: those who see salaries, and every other client, five levels below the owner.
PAY_ROLL = BrokerGroup("pay roll", ("pay roll broker",))
OFFICES = DomainGroup("offices", (BrokerGroup("reception", ("reception broker", "lift broker")),))
FINANCE = DomainGroup("finance", (DomainGroup("books", (PAY_ROLL,)),))
COMPANY = DomainGroup("company", (FINANCE, OFFICES))
PATHS = {
    "pay roll": ("owner", "company", "finance", "books", "pay roll"),
    "reception": ("owner", "company", "offices", "reception"),
}
CAST = (
    "owner",
    "company",
    "finance",
    "books",
    "pay roll",
    "offices",
    "reception",
    "pay roll broker",
    "reception broker",
    "lift broker",
    "stranger",
)
KEYS = {who: SigningKey.from_seed(sha256(who.encode()).digest()) for who in CAST}
OWNER = KEYS["owner"].principal
NETWORK = NetworkName(OWNER, "Company Network")


def a_type(name: str) -> VerifiedType:
    attributes = (Attribute("amount", attribute_uid("1"), Kind.INT),)
    definition = TypeDefinition(TypeName(OWNER, name, "0"), None, attributes)
    return verify_definition(sign_definition(definition, KEYS["owner"]), at=NOON)


SALARY, VISIT = a_type("Salary"), a_type("Visit")


def passed_on(path: tuple[str, ...], resources: ResourcePattern, action: Action) -> list[SignedCertificate]:
    """Grant a right from level to level, each time with the right to pass it on."""
    return [
        grant(KEYS[above], KEYS[below].principal, resources, action, may_delegate=True, validity=VALID)
        for above, below in pairwise(path)
    ]


def to_network(path: tuple[str, ...]) -> list[SignedCertificate]:
    return passed_on(path, NetworkPattern(OWNER, exact_name(NETWORK.name)), Action.CONNECT)


def to_type(path: tuple[str, ...], event_type: VerifiedType) -> list[SignedCertificate]:
    return passed_on(path, TypePattern(OWNER, exact_name(event_type.name.name), None), Action.SUBSCRIBE)


def may(who: str, pool: Iterable[SignedCertificate], event_type: VerifiedType | None = None) -> bool:
    principal = KEYS[who].principal
    request = (
        Request(principal, Action.CONNECT, NETWORK)
        if event_type is None
        else Request(principal, Action.SUBSCRIBE, event_type.name, event_type)
    )
    evidence = gather_evidence(request, list(pool), at=NOON)
    return isinstance(decide(request, evidence, NO_FACTS, NOON), Permit)


@pytest.fixture(params=list(Manner), ids=lambda manner: manner.value)
def handed_down(request: pytest.FixtureRequest) -> HandedDown:
    return hand_down(COMPANY, KEYS, owner=OWNER, validity=VALID, manner=request.param)


def test_a_broker_connects_by_the_right_of_its_domain_five_levels_below_the_owner(handed_down) -> None:
    pool = [*handed_down.certificates, *to_network(PATHS["pay roll"]), *to_network(PATHS["reception"])]
    assert all(may(who, pool) for who in ("pay roll broker", "reception broker", "lift broker"))
    assert not may("stranger", pool)


def test_without_a_right_of_its_domain_a_broker_has_nothing(handed_down) -> None:
    assert not may("pay roll broker", handed_down.certificates)
    assert not may("reception broker", [*handed_down.certificates, *to_network(PATHS["pay roll"])])


def test_a_privileged_sub_domain_sees_what_its_sibling_does_not(handed_down) -> None:
    pool = [
        *handed_down.certificates,
        *to_type(PATHS["pay roll"], SALARY),
        *to_type(PATHS["reception"], VISIT),
    ]
    assert may("pay roll broker", pool, SALARY)
    assert not may("pay roll broker", pool, VISIT)
    assert may("lift broker", pool, VISIT)
    assert not may("reception broker", pool, SALARY)


def test_a_right_that_the_domain_gets_later_needs_no_new_certificate_for_its_brokers(handed_down) -> None:
    before = [*handed_down.certificates, *to_type(PATHS["reception"], VISIT)]
    assert not may("lift broker", before, SALARY)
    after = [*before, *to_type(PATHS["reception"], SALARY)]
    assert may("lift broker", after, SALARY)
    assert may("reception broker", after, SALARY)


def test_a_level_that_is_left_out_breaks_the_chain(handed_down) -> None:
    levels = to_network(PATHS["pay roll"])
    for missing in range(len(levels)):
        pool = [*handed_down.certificates, *levels[:missing], *levels[missing + 1 :]]
        assert not may("pay roll broker", pool)


def test_brokers_cannot_pass_on_what_they_share(handed_down) -> None:
    onwards = to_network(("pay roll broker", "stranger"))
    pool = [*handed_down.certificates, *to_network(PATHS["pay roll"]), *onwards]
    assert may("pay roll broker", pool)
    assert not may("stranger", pool)
