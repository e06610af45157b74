"""What somebody can do who holds every key of a group, and no signing key: the insider of A49 and A51."""

from __future__ import annotations

from maia.sealing import EpochKeys
from maia.sealing.frames.ciphers import description, nonce
from maia.wire.messages import Sealed
from support.sealing import keys


def reseal(frame: Sealed, uid: str, plaintext: bytes, member: EpochKeys | None = None) -> bytes:
    """Return a ciphertext that opens to `plaintext` in the place of one column of `frame`."""
    member = member or keys(frame.epoch, type_id=frame.type_id)
    cipher = member.ciphers((uid,), frame.mark.instance)[0]
    assert cipher is not None
    return cipher.encrypt(nonce(frame.mark), plaintext, description(frame) + uid.encode())
