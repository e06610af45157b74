"""What does a frame cost from its publisher to its subscriber, in the clear and sealed?

The setting of the dissertation's figure 7.7: a publisher, its broker, the
subscriber's broker, the subscriber, no filter. All four take their turns in
one process, as in the paper's simulator, so that what is measured is the work
of all. The brokers are real (`broker_row.py`), and everything that crosses a
link does so as bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import sha256
from itertools import count
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from broker_row import REF, Row, world_of
from maia.credentials import Principal
from maia.events import Column, Frame, Kind
from maia.predicates import ALWAYS, Predicate
from maia.sealing import Sealer, SignatureChecks
from maia.sealing.frames import opener, sealer
from maia.sealing.frames.content import plaintexts_of
from maia.types import SealingLevel
from maia.wire.codec import decode, encode_known
from maia.wire.columns import columns_to_frame, frame_to_columns
from maia.wire.messages import Deliver, Publish

CHARACTERS = 30


class Proof(Enum):
    """What is proved about a sealed frame."""

    NONE = "not signed"
    EACH = "a signature for each frame"
    TOGETHER = "a signature for the frames that arrive together"


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of figure 7.8; with no level, events travel in the clear."""

    attributes: int
    rows: int
    level: SealingLevel | None = None
    proof: Proof = Proof.TOGETHER
    together: int = 1
    """Frames that arrive with one read of a socket."""
    characters: int = CHARACTERS
    brokers: int = 2
    share_plaintext: bool = False
    filter: Predicate = ALWAYS
    signed: bool = False
    """Whether frames in the clear are signed (protection `signed`)."""


_SAID = bytes(32)

_UNPROVED: Sequence[tuple[Any, str, object]] = (
    (Sealer, "sign", lambda _self, drafts: [draft.frame for draft in drafts]),
    (SignatureChecks, "check", lambda _self, frames, _roots: Principal(frames[0].signer)),
    *((where, "commitments", lambda *all_of: [_SAID] * len(all_of[-1])) for where in (sealer, opener)),
    *((where, "roots_of", lambda _uids, all_of, *_: [_SAID] * len(all_of)) for where in (sealer, opener)),
)
"""What leaves the proof out at either end: what it costs is measured. No reader would accept it."""


@contextmanager
def unproved() -> Iterator[None]:
    """Leave the proof out at either end for a while."""
    usual = [getattr(where, name) for where, name, _ in _UNPROVED]
    try:
        for where, name, other in _UNPROVED:
            setattr(where, name, other)
        yield
    finally:
        for (where, name, _), was in zip(_UNPROVED, usual, strict=True):
            setattr(where, name, was)


class Line:
    """A publisher, its broker and the subscriber's, a subscriber. `carry` takes some frames all the way."""

    def __init__(self, setting: Setting) -> None:
        """Make up the events and let everybody meet."""
        self.setting = setting
        world = world_of(setting.attributes, setting.level, signed=setting.signed)
        self.kinds = world.event_type.kinds
        columns = {uid: _column(setting, at) for at, uid in enumerate(self.kinds)}
        self.frame = Frame(setting.rows, columns)
        self.row = Row(
            world,
            brokers=setting.brokers,
            filter=setting.filter,
            share_plaintext=setting.share_plaintext,
        )
        self.published_at = int(self.row.now)
        self.sequence = count(0)

    def carry(self) -> Sequence[Frame]:
        """Take the frames of one read from the publisher to the subscriber."""
        setting = self.setting
        published = [self.publish() for _ in range(setting.together)]
        sent = self.row.at_first(published, together=setting.proof is not Proof.EACH)
        for number in range(1, setting.brokers - 1):
            sent = self.row.at_hop(number, sent)
        return [self.receive(data) for data in self.row.at_last(sent)]

    def carry_unproved(self) -> Sequence[Frame]:
        """Do the same where nothing is proved."""
        with unproved():
            return self.carry()

    def publish(self) -> bytes:
        """The publisher."""
        columns = frame_to_columns(self.frame)
        return encode_known(Publish(REF, next(self.sequence), self.published_at, self.frame.rows, columns))

    def receive(self, data: bytes) -> Frame:
        """The subscriber."""
        message = decode(data)
        assert isinstance(message, Deliver)
        return columns_to_frame(message.columns, message.rows, self.kinds)


def _column(setting: Setting, at: int) -> Column:
    # Texts of one length, as in the paper, of which no two are equal.
    width = setting.characters
    return Column(Kind.STRING, tuple(f"{at * setting.rows + row:0{width}d}" for row in range(setting.rows)))


def side(setting: Setting) -> Callable[[], object]:
    """Return one turn of a line that was seen to deliver what was published."""
    line = Line(setting)
    run = line.carry_unproved if setting.proof is Proof.NONE and setting.level else line.carry
    delivered = run()
    assert len(delivered) == setting.together
    if setting.filter is ALWAYS:
        assert all(frame == line.frame for frame in delivered)
    return run


_SAID_BYTES = 300
"""About what is said in the clear of a frame and its keys: bound to each cipher, and signed."""


def floor(setting: Setting) -> Callable[[], object]:
    """Return one turn in the clear with all that no sealed one can be without, and nothing else.

    That are the ciphers of what is sealed as one, at either end; and where there is a proof, hashes of
    all of it at either end, the signature, and its check.
    """
    plain, columns = side(replace(setting, level=None)), frame_to_columns(Line(setting).frame)
    contents = plaintexts_of([columns], setting.level or SealingLevel.ATTRIBUTE)
    ciphers = [AESGCM(os.urandom(32)) for _ in contents]
    key, said, numbers = Ed25519PrivateKey.generate(), os.urandom(_SAID_BYTES), count(1)
    public, signed_together = key.public_key(), 1 if setting.proof is Proof.EACH else setting.together

    def sealed_and_opened() -> tuple[Sequence[bytes], Sequence[bytes]]:
        number = next(numbers).to_bytes(12, "big")
        sealed = [cipher.encrypt(number, one, said) for cipher, one in zip(ciphers, contents, strict=True)]
        return sealed, [
            cipher.decrypt(number, one, said) for cipher, one in zip(ciphers, sealed, strict=True)
        ]

    def hashed(sealed: Sequence[bytes], opened: Sequence[bytes]) -> bytes:
        if setting.rows == 1:  # of a single event the ciphertext is hashed
            return sha256(b"".join((said, *sealed))).digest()
        return sha256(b"".join((said, *[sha256(one).digest() for one in opened]))).digest()

    def run() -> object:
        delivered = plain()
        done = [sealed_and_opened() for _ in range(setting.together)]
        if setting.proof is Proof.NONE:
            return delivered
        made, checked = [hashed(*one) for one in done], [hashed(*one) for one in done]
        for at in range(0, setting.together, signed_together):
            for roots in (made, checked):
                for root in roots[at : at + signed_together - 1]:
                    sha256(root + root).digest()  # a tree over so many has one node less
            public.verify(key.sign(made[at]), checked[at])
        return delivered

    return run
