"""The stream of an issuer's statements: a name that everybody can work out, and events of one attribute."""

from __future__ import annotations

import pytest

from maia.credentials import (
    UNBOUNDED,
    Action,
    BadStatement,
    NetworkPattern,
    OnlineTest,
    TestKind,
    Version,
    parse_name_pattern,
)
from maia.events import Attribute, AttributeUid, Kind
from maia.testing.refusals import raises
from maia.types import (
    STATEMENT,
    InstallNotGranted,
    Sealing,
    SealingLevel,
    TypeDefinition,
    is_validity_stream,
    sign_definition,
    statement_in,
    statement_to_event,
    type_id,
    validity_definition,
    validity_type_id,
    validity_type_name,
    verify_definition,
)
from support.statements import ISSUER, NOON, TESTER, certificate, crl
from support.types import NETWORK, PITO, grant

NAME = validity_type_name(TESTER.principal)


def verified(definition, key=TESTER):
    return verify_definition(sign_definition(definition, key), at=NOON)


def test_the_definition_is_what_the_name_promises():
    stream = verify_definition(validity_definition(TESTER), at=NOON)
    assert stream.name == NAME
    assert stream.type_id == validity_type_id(TESTER.principal) == type_id(TESTER.principal, NAME.name)
    assert is_validity_stream(stream)
    assert validity_definition(TESTER) == validity_definition(TESTER)


def test_every_issuer_has_a_stream_of_its_own():
    assert validity_type_id(TESTER.principal) != validity_type_id(ISSUER.principal)


def test_no_principal_defines_the_stream_of_another():
    with raises("TYPE-NOT-A-MANAGER"):
        verified(TypeDefinition(NAME, None, (STATEMENT,)), ISSUER)


def test_a_network_that_asks_for_the_right_to_install_finds_it_inside():
    with pytest.raises(InstallNotGranted):
        verify_definition(validity_definition(TESTER), at=NOON, network=NETWORK)
    right = grant(
        PITO, TESTER.principal, frozenset((Action.INSTALL,)), NetworkPattern(None, parse_name_pattern("*"))
    )
    with_right = validity_definition(TESTER, (right,))
    assert is_validity_stream(verify_definition(with_right, at=NOON, network=NETWORK))


def test_a_right_that_must_be_tested_installs_nothing():
    """A definition is believed for long, and no principal receives statements about it."""
    validity = UNBOUNDED.with_tests(OnlineTest(TestKind.TIMED_CRL, PITO.principal))
    networks = NetworkPattern(None, parse_name_pattern("*"))
    right = grant(PITO, TESTER.principal, frozenset((Action.INSTALL,)), networks, validity=validity)
    with pytest.raises(InstallNotGranted):
        verify_definition(validity_definition(TESTER, (right,)), at=NOON, network=NETWORK)


VERSION: Version = "0f8fad5b-d9cb-469f-a165-70867728950e"
MORE = Attribute("who", AttributeUid("who"), Kind.STRING)
OTHER = Attribute("statement", AttributeUid("statement2"), Kind.BYTES)


@pytest.mark.parametrize(
    "definition",
    [
        TypeDefinition(NAME, None, (STATEMENT, MORE)),
        TypeDefinition(NAME, None, (MORE,)),
        TypeDefinition(NAME, None, (OTHER,)),
        TypeDefinition(NAME, None, (Attribute("statement", STATEMENT.uid, Kind.STRING),)),
        TypeDefinition(NAME, None, (Attribute("secret", STATEMENT.uid, Kind.BYTES),)),
        TypeDefinition(type(NAME)(TESTER.principal, "maia.validity", VERSION), "0", (STATEMENT,)),
        TypeDefinition(type(NAME)(TESTER.principal, "maia.validity.x", "0"), None, (STATEMENT,)),
        TypeDefinition(NAME, None, (STATEMENT,), sealing=Sealing(SealingLevel.EVENT, TESTER.principal)),
    ],
)
def test_nothing_else_is_such_a_stream(definition):
    """Every principal may read one, so whatever could hold more is none."""
    assert not is_validity_stream(verified(definition))


def test_an_event_carries_one_statement():
    signed = crl(1, certificate(), since=0)
    event = statement_to_event(signed)
    assert statement_in(event) == signed
    assert statement_in({}) is None
    assert statement_in({STATEMENT.uid: None}) is None
    with pytest.raises(BadStatement):
        statement_in({STATEMENT.uid: b"nonsense"})
