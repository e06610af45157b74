"""How are values of every ordered kind compared by the thousand, as 64-bit integers?

The cover table and merging ask. The code of a value keeps the order of its
kind: if `a <= b` then `code(a) <= code(b)`. For int, timestamp, float and bool
different values have different codes, so a range of codes is a range of
values. For string and bytes the code is made of the first eight bytes alone,
so it can rule a value out and never prove it in.
"""

from __future__ import annotations

import struct
import sys
from typing import Final

from maia.events import INSTANT_MAX, INSTANT_MIN, INT_MAX, INT_MIN, Instant, Kind, PresentValue

__all__ = ["CODE_MAX", "CODE_MIN", "code_of", "code_range", "is_faithful", "value_of"]

CODE_MIN: Final = -(2**63)
CODE_MAX: Final = 2**63 - 1


def is_faithful(kind: Kind) -> bool:
    """Say whether different values of `kind` have different codes."""
    return kind not in (Kind.STRING, Kind.BYTES)


def code_range(kind: Kind) -> tuple[int, int]:
    """Return the lowest and the highest code of a value of `kind`."""
    match kind:
        case Kind.INT:
            return INT_MIN, INT_MAX
        case Kind.TIMESTAMP:
            return INSTANT_MIN, INSTANT_MAX
        case Kind.FLOAT:
            return _float_code(-sys.float_info.max), _float_code(sys.float_info.max)
        case Kind.BOOL:
            return 0, 1
        case Kind.STRING | Kind.BYTES:
            return CODE_MIN, CODE_MAX


def code_of(value: PresentValue) -> int:
    """Return the code of a value; values of different kinds are never compared by code."""
    match value:
        case str():
            return _bytes_code(value.encode())
        case bytes():
            return _bytes_code(value)
        case float():
            return _float_code(value)
        case _:
            return int(value)


def value_of(code: int, kind: Kind) -> PresentValue:
    """Return the value of a faithful kind that has this code."""
    match kind:
        case Kind.INT:
            return code
        case Kind.TIMESTAMP:
            return Instant(code)
        case Kind.BOOL:
            return bool(code)
        case Kind.FLOAT:
            bits = code if code >= 0 else CODE_MIN - code
            return float(struct.unpack(">d", struct.pack(">q", bits))[0])
        case Kind.STRING | Kind.BYTES:
            raise AssertionError(f"the code of a {kind.value} does not name one value")


def _float_code(value: float) -> int:
    # IEEE 754 doubles are ordered like sign and magnitude integers, and minus zero never gets here.
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
    return bits if bits >= 0 else CODE_MIN - bits


def _bytes_code(data: bytes) -> int:
    # UTF-8 keeps the order of code points. Padding with zeros keeps a prefix no later than its extensions.
    return int.from_bytes(data[:8].ljust(8, b"\0"), "big") + CODE_MIN
