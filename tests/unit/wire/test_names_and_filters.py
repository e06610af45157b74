"""Names and filters in messages use the forms that certificates use."""

from __future__ import annotations

import pytest

from maia.canonical import write_canonical
from maia.credentials import (
    NetworkName,
    NetworkPattern,
    QuorumId,
    TypePattern,
    exact_name,
    parse_name_pattern,
)
from maia.credentials.encoding.parts import resource_to_expression
from maia.testing.refusals import raises
from maia.wire import (
    FilterTooLong,
    filter_from_bytes,
    filter_to_bytes,
    network_to_bytes,
    type_from_bytes,
    type_to_bytes,
)
from support.wire import NETWORK, OWNER, PLATE, plate_is


@pytest.mark.parametrize("network", [NETWORK, NetworkName(QuorumId(b"q" * 32), "A b-c")])
def test_a_network_is_named_as_in_certificates(network):
    data = network_to_bytes(network)
    pattern = NetworkPattern(network.owner, exact_name(network.name))
    assert data == write_canonical(resource_to_expression(pattern))


def test_a_type_is_named_as_in_certificates():
    assert type_from_bytes(type_to_bytes(PLATE)) == PLATE


@pytest.mark.parametrize(
    "pattern",
    [
        NetworkPattern(None, exact_name("a")),
        NetworkPattern(OWNER.principal, parse_name_pattern("a*")),
        TypePattern(OWNER.principal, exact_name("a"), None),
        TypePattern(OWNER.principal, parse_name_pattern("*"), "0"),
        TypePattern(None, exact_name("a"), "0"),
    ],
)
def test_a_pattern_is_no_name(pattern):
    data = write_canonical(resource_to_expression(pattern))
    with raises("PROTOCOL-NAME"):
        type_from_bytes(data)


def test_a_network_is_no_type_and_bytes_are_no_name():
    for data in (
        network_to_bytes(NETWORK),
        b"",
        b"x",
        b"3:abc",
        network_to_bytes(NETWORK) + b"0:",
        b"(" * 2000,
    ):
        with raises("PROTOCOL-NAME"):
            type_from_bytes(data)


def test_odd_filters_are_refused():
    for data in (b"", b"(3:and", b"(3:and)0:", b"(3:xor)", b"(" * 5000, b"(3:not" * 5000):
        with raises("PROTOCOL-FILTER"):
            filter_from_bytes(data)
    with pytest.raises(FilterTooLong):
        filter_to_bytes(plate_is("x" * 70_000))
