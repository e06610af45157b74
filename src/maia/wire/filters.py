"""Which bytes are the filter of an interest that travels between brokers?

The canonical form of the predicate, as in certificates and signed requests.
"""

from __future__ import annotations

from typing import Final

from maia.canonical import Limits, read_canonical, write_canonical
from maia.errors import BadInput, ProtocolViolation
from maia.predicates import DEPTH_MAX, Predicate, predicate_from_expression, predicate_to_expression

__all__ = ["FILTER_BYTES_MAX", "BadFilterEncoding", "FilterTooLong", "filter_from_bytes", "filter_to_bytes"]

FILTER_BYTES_MAX: Final = 1 << 16

# A literal is a list inside its test.
_LIMITS: Final = Limits(size_max=FILTER_BYTES_MAX, depth_max=DEPTH_MAX + 2, atom_max=FILTER_BYTES_MAX)


class BadFilterEncoding(ProtocolViolation):
    """Bytes are not the one form of a filter."""

    code = "PROTOCOL-FILTER"


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
        return predicate_from_expression(read_canonical(data, _LIMITS))
    except BadInput as problem:
        raise BadFilterEncoding(f"the filter cannot be read: {problem.message}") from problem
