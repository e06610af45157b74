"""Who is the author of these events, by its own signature, whatever part of its frame is left?

A publisher that signs gives one Ed25519 signature for a frame. Brokers leave out rows and columns that
a subscriber may not have, and the signature still holds for the rest:

    signature <- description, names of the columns, and the top of a tree <- one leaf a row
    leaf      <- salt of the row, and for each column the hash of its value <- seed of the column, value

A column that is left out leaves the hashes of its values behind, a row its leaf. Neither lets a reader guess:
the seed of each column and the salt of each row come from a secret of the frame, and travel
with the columns and rows that are shown, and with no others. The leaves are those of a tree whose nodes
have four children each, so that rows that are left out cost little.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from struct import Struct
from typing import Annotated, Final, cast

import msgspec
from msgspec import Meta

from maia.credentials import Principal, SignedKind, SigningKey, verify_signature
from maia.credentials.keys import BadSignature
from maia.errors import BrokenCredential
from maia.events import AttributeUid, Column, Frame, Instant, Kind, Value
from maia.wire.columns import kind_to_number

SEED_BYTES: Final = 32
_HASH_BYTES: Final = 32
_SALT_BYTES: Final = 16
_CELL: Final = b"maia/1/author-cell\x00"
_LEAF: Final = b"maia/1/author-row\x00"
_FRAME: Final = b"maia/1/author-frame\x00"
_REQUIRING: Final = b"maia/1/author-frame-requiring\x00"
_COLUMN_SEED: Final = b"maia/1/author-column-seed\x00"
_ROW_SALT: Final = b"maia/1/author-row-salt\x00"
_ABOUT: Final = Struct(">32s16sqIH")
_ROW: Final = Struct(">I")
_NAMED: Final = Struct(">HB")


class Publishing(msgspec.Struct, frozen=True):
    """Which frame is signed: its type, label and moment, and what subscribers have to meet.

    The label stands for publisher, stream and number: a broker, which has these, compares it.
    """

    type_id: bytes
    label: bytes
    published_at: int
    requires: bytes = b""


class _SignedColumn(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One column of the signed frame: with its seed, or without it and with the hashes of its values."""

    uid: Annotated[str, Meta(min_length=1, max_length=64)]
    kind: Annotated[int, Meta(ge=0, le=15)]
    seed: Annotated[bytes, Meta(max_length=_SALT_BYTES)]
    hashes: bytes


class AuthorProof(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What proves that a publisher has signed the rows and columns that are here."""

    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]
    rows: Annotated[int, Meta(ge=1, le=65_536)]
    """How many rows the signed frame has."""
    here: Annotated[list[Annotated[int, Meta(ge=0, le=65_535)]], Meta(max_length=65_536)]
    """Which of them are here; empty for all."""
    salts: bytes
    path: bytes
    columns: Annotated[list[_SignedColumn], Meta(min_length=1, max_length=1024)]

    def to_bytes(self) -> bytes:
        """Return the bytes in which it travels with a frame."""
        return _ENCODER.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> AuthorProof:
        """Read a proof, strictly."""
        try:
            proof = _DECODER.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            raise BrokenCredential(
                "CREDENTIAL-AUTHORSHIP", "the signature of the publisher cannot be read"
            ) from problem
        proof._check_shape(len(data) == len(_ENCODER.encode(proof)))
        return proof

    def _check_shape(self, is_in_one_form: bool) -> None:
        here, count = self.here, len(self.numbers)
        is_ordered = all(a < b for a, b in pairwise(here)) and max(here, default=0) < self.rows
        uids = {column.uid for column in self.columns}
        has_hashes = all(
            len(column.hashes) == (0 if column.seed else count * _HASH_BYTES)
            and len(column.seed) in {0, _SALT_BYTES}
            for column in self.columns
        )
        is_whole = is_in_one_form and is_ordered and has_hashes and len(uids) == len(self.columns)
        if not is_whole or len(self.salts) != count * _SALT_BYTES:
            raise BrokenCredential(
                "CREDENTIAL-AUTHORSHIP", "the signature of the publisher contradicts itself"
            )

    @property
    def numbers(self) -> Sequence[int]:
        """Return the numbers of the rows that are here, in the frame that was signed."""
        return self.here or range(self.rows)

    def part(
        self,
        columns: Mapping[AttributeUid, Column],
        rows: Sequence[int],
        *,
        only: Collection[AttributeUid] | None = None,
    ) -> AuthorProof:
        """Return the proof of some rows, counted among those here, with all columns or those of `only`."""
        numbers = self.numbers
        kept, hashes = [numbers[row] for row in rows], self._hashes(columns)
        path = self.path
        if len(rows) != len(numbers):
            tree = _known_tree(self._leaves(hashes), count=self.rows, path=self.path)
            path = _path_to(tree, kept, count=self.rows)
        written = [
            _SignedColumn(one.uid, one.kind, one.seed, b"")
            if one.seed and (only is None or one.uid in only)
            else _SignedColumn(one.uid, one.kind, b"", b"".join([hashes[one.uid][row] for row in rows]))
            for one in self.columns
        ]
        salts = b"".join([self._salt(row) for row in rows])
        return AuthorProof(
            self.signature, self.rows, kept if len(kept) < self.rows else [], salts, path, written
        )

    def check(self, publisher: Principal, about: Publishing, frame: Frame) -> None:
        """Raise unless the publisher has signed every value of this frame as one of these rows."""
        shown = {one.uid: one for one in self.columns if one.seed}
        if set(frame.columns) != set(shown) or frame.rows != len(self.numbers):
            raise BrokenCredential(
                "CREDENTIAL-AUTHORSHIP", "the publisher has signed other columns or rows than these"
            )
        for uid, column in frame.columns.items():
            if kind_to_number(column.kind) != shown[uid].kind:
                raise BrokenCredential(
                    "CREDENTIAL-AUTHORSHIP", f"the publisher has signed column `{uid}` as another kind"
                )
        try:
            verify_signature(
                publisher, SignedKind.AUTHORSHIP, self._signed(about, frame.columns), self.signature
            )
        except BadSignature as problem:
            raise BrokenCredential(
                "CREDENTIAL-AUTHORSHIP", "the publisher has not signed these events"
            ) from problem

    def _signed(self, about: Publishing, columns: Mapping[AttributeUid, Column]) -> bytes:
        """Return what the publisher has signed, if it has signed these columns."""
        leaves = self._leaves(self._hashes(columns))
        top = _known_tree(leaves, count=self.rows, path=self.path)[-1][0]
        said = _ABOUT.pack(about.type_id, about.label, +about.published_at, self.rows, len(self.columns))
        names = [_NAMED.pack(len(one.uid.encode()), one.kind) + one.uid.encode() for one in self.columns]
        if about.requires:
            # Under another beginning: without its requirement the frame is none that was signed (A98).
            return b"".join((_REQUIRING, sha256(about.requires).digest(), said, *names, top))
        return b"".join((_FRAME, said, *names, top))

    def _salt(self, row: int) -> bytes:
        return self.salts[row * _SALT_BYTES : (row + 1) * _SALT_BYTES]

    def _hashes(self, columns: Mapping[AttributeUid, Column]) -> dict[str, list[bytes]]:
        """Return the hashes of the values of every column, of those rows that are here."""
        numbers = self.numbers
        found: dict[str, list[bytes]] = {}
        for one in self.columns:
            if one.seed:
                column = columns.get(AttributeUid(one.uid))
                if column is None or len(column.values) != len(numbers):
                    raise BrokenCredential(
                        "CREDENTIAL-AUTHORSHIP", f"column `{one.uid}` was signed, and is not here"
                    )
                found[one.uid] = _cells(one.seed, column, numbers)
            else:
                ends = range(_HASH_BYTES, len(one.hashes) + 1, _HASH_BYTES)
                found[one.uid] = [one.hashes[end - _HASH_BYTES : end] for end in ends]
        return found

    def _leaves(self, hashes: Mapping[str, Sequence[bytes]]) -> dict[int, bytes]:
        by_column = [hashes[one.uid] for one in self.columns]
        return {
            number: _leaf(self._salt(row), [column[row] for column in by_column])
            for row, number in enumerate(self.numbers)
        }


def sign_as_author(frame: Frame, about: Publishing, key: SigningKey, seed: bytes) -> bytes:
    """Return a publisher's signature over a whole frame; `seed` is 32 random bytes for this frame alone."""
    signed = _whole(frame, bytes(64), seed)._signed(about, frame.columns)
    return key.sign(SignedKind.AUTHORSHIP, signed)


def proof_of_author(
    frame: Frame, about: Publishing, publisher: Principal, signature: bytes, seed: bytes
) -> AuthorProof:
    """Return the proof of a whole frame as its publisher sends it; refuse a signature that does not hold."""
    proof = _whole(frame, signature, seed)
    proof.check(publisher, about, frame)
    return proof


def _whole(frame: Frame, signature: bytes, seed: bytes) -> AuthorProof:
    salts = b"".join([_derived(_ROW_SALT, seed, _ROW.pack(row)) for row in range(frame.rows)])
    columns = [
        _SignedColumn(uid, kind_to_number(column.kind), _derived(_COLUMN_SEED, seed, uid.encode()), b"")
        for uid, column in frame.columns.items()
    ]
    return AuthorProof(signature, frame.rows, [], salts, b"", columns)


def _cells(seed: bytes, column: Column, numbers: Sequence[int]) -> list[bytes]:
    """Return the hash of each value, bound to its row and hidden by the seed of its column."""
    values: Sequence[Value] = column.values  # each of its kind: the frame was checked when it was read
    if column.kind is Kind.TIMESTAMP:
        values = [None if value is None else int(cast("Instant", value)) for value in values]
    encode, before = _ENCODER.encode, _CELL + seed
    return [
        sha256(before + _ROW.pack(number) + encode(value)).digest()
        for value, number in zip(values, numbers, strict=True)
    ]


def _leaf(salt: bytes, cells: Sequence[bytes]) -> bytes:
    return sha256(b"".join((_LEAF, salt, *cells))).digest()


def _derived(kind: bytes, seed: bytes, what: bytes) -> bytes:
    return sha256(kind + seed + what).digest()[:_SALT_BYTES]


# ------------------------------------------------------------ the tree over the rows


_Known = Sequence[Mapping[int, bytes]]
"""The hashes of a tree that are known, by level from the leaves on, and by their place in it."""

_FAN: Final = 4
_NODE: Final = b"maia/1/blocks\x00"


def _known_tree(leaves: Mapping[int, bytes], *, count: int, path: bytes = b"") -> _Known:
    """Return what follows from some of `count` leaves and a path; refuse a path that is not just enough."""
    levels, level, at = [dict(leaves)], dict(leaves), 0
    while count > 1:
        above: dict[int, bytes] = {}
        for parent in sorted({place // _FAN for place in level}):
            children = range(parent * _FAN, min((parent + 1) * _FAN, count))
            for child in children:
                if child not in level:
                    level[child] = path[at : at + _HASH_BYTES]
                    at += _HASH_BYTES
            above[parent] = sha256(_NODE + b"".join([level[child] for child in children])).digest()
        levels[-1], level, count = level, above, -(-count // _FAN)
        levels.append(above)
    if at != len(path):
        raise BrokenCredential(
            "CREDENTIAL-AUTHORSHIP",
            "what leads from rows to the publisher's signature is too long or too short",
        )
    return levels


def _path_to(tree: _Known, rows: Sequence[int], *, count: int) -> bytes:
    """Return the hashes with which the top is found from these rows alone, which the tree knows."""
    path: list[bytes] = []
    here = set(rows)
    for level in tree[:-1]:
        parents = sorted({place // _FAN for place in here})
        for parent in parents:
            children = range(parent * _FAN, min((parent + 1) * _FAN, count))
            path += [level[child] for child in children if child not in here]
        here, count = set(parents), -(-count // _FAN)
    return b"".join(path)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(AuthorProof)
