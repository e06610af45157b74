"""Messages, columns and requests to try the wire with, drawn from the definitions themselves."""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from maia.credentials import Action, NetworkName, SigningKey, TypeName
from maia.events import (
    INSTANT_MAX,
    INSTANT_MIN,
    INT_MAX,
    INT_MIN,
    AttributeUid,
    Column,
    Frame,
    Instant,
    Kind,
    Value,
)
from maia.predicates import ALWAYS, Comparison, Operator, Predicate
from maia.wire import EdgeRequest, Message, SignedRequest, sign_request

CLIENT = SigningKey.from_seed(b"c" * 32)
OTHER = SigningKey.from_seed(b"o" * 32)
OWNER = SigningKey.from_seed(b"w" * 32)
NETWORK = NetworkName(OWNER.principal, "uk.Police")
PLATE = TypeName(OWNER.principal, "uk.gov.pito.Numberplate", "0")
NOON = Instant.parse("2026-11-15T12:00:00Z")

MESSAGE_CLASSES: tuple[type[msgspec.Struct], ...] = get_args(Message)


@cache
def values_of(kind: Kind) -> st.SearchStrategy[Value]:
    """Return a strategy for the values of one kind, corners included."""
    match kind:
        case Kind.STRING:
            return st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
        case Kind.INT:
            return st.integers(INT_MIN, INT_MAX) | st.integers(-200, 70_000)
        case Kind.FLOAT:
            return st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
        case Kind.BOOL:
            return st.booleans()
        case Kind.TIMESTAMP:
            return st.integers(INSTANT_MIN, INSTANT_MAX).map(Instant)
        case Kind.BYTES:
            return st.binary(max_size=40)


@cache
def columns_of(kind: Kind, *, rows: int | None = None) -> st.SearchStrategy[tuple[Value, ...]]:
    """Return a strategy for whole columns with nulls."""
    least, most = (0, 40) if rows is None else (rows, rows)
    return st.lists(st.none() | values_of(kind), min_size=least, max_size=most).map(tuple)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Draw a frame of up to 20 rows and 5 columns."""
    rows = draw(st.integers(0, 20))
    uids = draw(st.lists(st.from_regex(r"\A[0-9a-z]{1,5}\Z"), unique=True, max_size=5))
    columns: dict[AttributeUid, Column] = {}
    for uid in uids:
        kind = draw(st.sampled_from(Kind))
        columns[AttributeUid(uid)] = Column(kind, draw(columns_of(kind, rows=rows)))
    return Frame(rows, columns)


@cache  # drawn within a test, it would be made and looked through again for every case
def messages() -> st.SearchStrategy[Message]:
    """Return a strategy for every message there is, with fields drawn from their own bounds."""
    return st.one_of(*map(_of_struct, MESSAGE_CLASSES))


def _of_struct(struct: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(struct, include_extras=True)
    return st.builds(struct, **{name: _of_type(hints[name]) for name in struct.__struct_fields__})


def _of_type(hint: Any, meta: msgspec.Meta | None = None) -> st.SearchStrategy[Any]:
    if get_origin(hint) is Annotated:
        inner, found = get_args(hint)
        return _of_type(inner, found)
    if get_origin(hint) in (Union, types.UnionType):
        return st.one_of(*map(_of_type, get_args(hint)))
    if get_origin(hint) is list:
        least = (meta.min_length or 0) if meta else 0
        return st.lists(_of_type(get_args(hint)[0]), min_size=least, max_size=max(3, least))
    if hint is int:
        assert meta is not None, "an integer without bounds can be anything"
        return st.integers(meta.ge, meta.le) | st.sampled_from((meta.ge, meta.le))
    if hint is bytes:
        least, most = (meta.min_length or 0, meta.max_length or 100) if meta else (0, 100)
        return st.binary(min_size=least, max_size=min(most, 100))
    if hint is str:
        return _texts(meta)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _of_struct(hint)
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    return {bool: st.booleans(), type(None): st.none()}[hint]


def _texts(meta: msgspec.Meta | None) -> st.SearchStrategy[str]:
    assert meta is not None, "a text without bounds can be anything"
    if meta.pattern:
        return st.from_regex(meta.pattern).filter(
            lambda text: meta.max_length is None or len(text) <= meta.max_length
        )
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=min(meta.max_length, 20))


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw `data` with a few bytes changed, cut out or put in."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(changed) - 1, 0)))
        new = draw(st.binary(max_size=2) | st.sampled_from((b"\x00", b"\xc0", b"\xcc", b"\xd9", b"\xff")))
        changed[at : at + draw(st.integers(0, 2))] = new
    return bytes(changed)


def signed(
    *,
    key: SigningKey = CLIENT,
    network: NetworkName = NETWORK,
    action: Action = Action.SUBSCRIBE,
    wanted: Predicate = ALWAYS,
    at: Instant = NOON,
    nonce: bytes = b"n" * 16,
) -> SignedRequest:
    """Sign a request of the usual client, with whatever is told otherwise."""
    return sign_request(EdgeRequest(action, network, PLATE, wanted, b"s" * 16, at, nonce), key)


def plate_is(text: str) -> Predicate:
    """Return the filter for one numberplate."""
    return Comparison(AttributeUid("3265"), Operator.EQ, text)
