"""Which bytes are a network, an event type or a filter in a message?

Greetings name a network, type queries a version of a type, and signed
requests both. The form is the one that certificates use for an exact
resource, so there is one writer and one reader of names in Maia; a pattern
that matches more than one name is refused here.
"""

from __future__ import annotations

from typing import Final

from maia.canonical import Limits, SExpression, read_canonical, write_canonical
from maia.credentials import NetworkName, NetworkPattern, TypeName, TypePattern, exact_name
from maia.credentials.encoding.parts import resource_from_expression, resource_to_expression
from maia.errors import BadInput, BrokenCredential, ProtocolViolation
from maia.events import routed_uid
from maia.predicates import DEPTH_MAX, Predicate, predicate_from_expression, predicate_to_expression

_LIMITS: Final = Limits(size_max=1024, depth_max=4, atom_max=256)


def network_to_expression(network: NetworkName) -> SExpression:
    """Return `(network (owner OWNER) (name NAME))`."""
    return resource_to_expression(NetworkPattern(network.owner, exact_name(network.name)))


def network_from_expression(expression: SExpression) -> NetworkName:
    """Read the name of one network, strictly."""
    try:
        match resource_from_expression(expression):
            case NetworkPattern(owner, pattern) if owner is not None and pattern.exact is not None:
                return NetworkName(owner, pattern.exact)
    except (BadInput, BrokenCredential) as problem:
        raise ProtocolViolation(
            "PROTOCOL-NAME", f"the name of the network cannot be read: {problem.message}"
        ) from problem
    raise ProtocolViolation("PROTOCOL-NAME", "one network must be named, with its owner")


def type_to_expression(name: TypeName) -> SExpression:
    """Return `(type (owner OWNER) (name NAME) (version VERSION))`."""
    return resource_to_expression(TypePattern(name.owner, exact_name(name.name), name.version))


def type_from_expression(expression: SExpression) -> TypeName:
    """Read the name of one version of one type, strictly."""
    try:
        match resource_from_expression(expression):
            case TypePattern(owner, pattern, version) if owner is not None and pattern.exact is not None:
                if version is not None:
                    return TypeName(owner, pattern.exact, version)
    except (BadInput, BrokenCredential) as problem:
        raise ProtocolViolation(
            "PROTOCOL-NAME", f"the name of the type cannot be read: {problem.message}"
        ) from problem
    raise ProtocolViolation("PROTOCOL-NAME", "one version of one event type must be named, with its owner")


def network_to_bytes(network: NetworkName) -> bytes:
    """Return the bytes of a network's name, as in a greeting."""
    return write_canonical(network_to_expression(network))


def type_to_bytes(name: TypeName) -> bytes:
    """Return the bytes of a type's name and version, as in a type query."""
    return write_canonical(type_to_expression(name))


def type_from_bytes(data: bytes) -> TypeName:
    """Read the bytes of a type's name and version, strictly."""
    return type_from_expression(_read(data))


def _read(data: bytes) -> SExpression:
    try:
        return read_canonical(data, _LIMITS)
    except BadInput as problem:
        raise ProtocolViolation("PROTOCOL-NAME", f"the name cannot be read: {problem.message}") from problem


# ------------------------------------------------------------ filters of interests between brokers


FILTER_BYTES_MAX: Final = 1 << 16

# A literal is a list inside its test.
_FILTER_LIMITS: Final = Limits(size_max=FILTER_BYTES_MAX, depth_max=DEPTH_MAX + 2, atom_max=FILTER_BYTES_MAX)


class FilterTooLong(BadInput):
    """A filter has more bytes than a message has room for."""

    code = "INPUT-FILTER-TOO-LONG"


def filter_to_bytes(predicate: Predicate) -> bytes:
    """Return the one form of a filter; refuse one that no peer would read."""
    data = write_canonical(predicate_to_expression(predicate))
    if len(data) > FILTER_BYTES_MAX:
        raise FilterTooLong(f"a filter of {len(data)} bytes is longer than the {FILTER_BYTES_MAX} allowed")
    return data


def filter_from_bytes(data: bytes) -> Predicate:
    """Read exactly what `filter_to_bytes` writes."""
    try:
        return predicate_from_expression(read_canonical(data, _FILTER_LIMITS), routed_uid)
    except BadInput as problem:
        raise ProtocolViolation(
            "PROTOCOL-FILTER", f"the filter cannot be read: {problem.message}"
        ) from problem
