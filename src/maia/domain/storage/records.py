"""How does a value become the bytes of one cell of a table, and come back?

By its annotations, as a canonical S-expression: a class is the list of its fields, a tuple that of its
items, and a missing moment or principal has a word of its own. The bytes are neither signed nor sent; those
that are not just what was written are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from functools import cache, partial
from typing import Any, Final, get_args, get_origin, get_type_hints

from maia.canonical import Limits, SExpression, read_canonical, write_canonical
from maia.canonical.fields import Part
from maia.credentials import Principal, principal_from_bytes
from maia.credentials.appointments import Argument, argument_from_expression, argument_to_expression
from maia.errors import MaiaError, Unavailable
from maia.events import Instant

_LIMITS: Final = Limits(size_max=1 << 24, depth_max=8, atom_max=1 << 22)
_NEVER: Final = b"never"
_UNREADABLE: Final = partial(Unavailable, "UNAVAILABLE-DOMAIN-STORE")


# Any: a cell holds whatever its annotation says; the caller names the class of what it reads.
def to_cell(kind: Any, value: object) -> bytes:
    """Return the bytes of a value of this kind, a class or a tuple of such."""
    return write_canonical(_part(kind).write(value))


def from_cell(
    kind: Any,
    data: bytes,
    what: str,
    *,
    wrong: Callable[[str], MaiaError] = _UNREADABLE,
    limits: Limits = _LIMITS,
) -> Any:
    """Return the value of these bytes; raise what is `wrong` if they are not one."""
    try:
        return _part(kind).read(read_canonical(data, limits))
    except (MaiaError, ValueError, TypeError) as problem:
        raise wrong(f"{what} cannot be read: {problem}") from problem


def _atom(write: Callable[[Any], bytes], read: Callable[[bytes], Any]) -> Part[Any]:
    def checked(expression: SExpression) -> Any:
        if not isinstance(expression, bytes):
            raise ValueError("a value was expected, and not a list")
        return read(expression)

    return Part(write, checked)


_PARTS: Final[dict[object, Part[Any]]] = {
    bytes: _atom(lambda value: value, lambda data: data),
    str: _atom(str.encode, bytes.decode),
    int: _atom(lambda value: b"%d" % value, int),
    bool: _atom(lambda value: b"%d" % value, lambda data: data == b"1"),
    Instant: _atom(lambda value: b"%d" % value, lambda data: Instant(int(data))),
    Instant | None: _atom(
        lambda value: _NEVER if value is None else b"%d" % value,
        lambda data: None if data == _NEVER else Instant(int(data)),
    ),
    Principal: _atom(lambda value: value.key, principal_from_bytes),
    Principal | None: _atom(
        lambda value: b"" if value is None else value.key,
        lambda data: principal_from_bytes(data) if data else None,
    ),
    Argument: Part(argument_to_expression, argument_from_expression),
}


@cache
def _part(kind: Any) -> Part[Any]:
    if kind in _PARTS:
        return _PARTS[kind]
    if get_origin(kind) is tuple:
        *kinds, last = get_args(kind)
        parts = None if last is Ellipsis else [*map(_part, kinds), _part(last)]
        return _items([_part(kinds[0])] if parts is None else parts, is_many=parts is None)
    if issubclass(kind, Enum):
        return _atom(lambda value: value.value.encode(), lambda data: kind(data.decode()))
    hints, names = get_type_hints(kind), [one.name for one in fields(kind)]
    whole = _items([_part(hints[name]) for name in names])
    return Part(
        lambda value: whole.write([getattr(value, name) for name in names]),
        lambda expression: kind(*whole.read(expression)),
    )


def _items(parts: list[Part[Any]], *, is_many: bool = False) -> Part[Any]:
    def checked(expression: SExpression) -> Any:
        if not isinstance(expression, tuple):
            raise ValueError("a list was expected")
        return tuple(part.read(one) for part, one in paired(expression))

    def paired(values: Any) -> Any:
        return zip(parts * len(values) if is_many else parts, values, strict=True)

    return Part(lambda values: tuple(part.write(one) for part, one in paired(values)), checked)
