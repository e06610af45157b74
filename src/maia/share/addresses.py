"""Who may fetch which file, until when? The address says it, and nobody else can write one.

An address is for one recipient, one table, one class of right, one file and some minutes. It is sealed
with a secret of this run of the server, so it can be neither guessed nor changed, and ends with the
run. Whether the recipient is still one, and has the same right, is asked when the file is fetched
(`application.py`).
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Final

import msgspec

from maia.credentials.keys import same_secret
from maia.errors import Refusal
from maia.events import Instant

FILE_ID: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
SECRET_BYTES: Final = 32
_MAC_BYTES: Final = 32
_TEXT_MAX: Final = 2048
_PURPOSE: Final = b"maia/1 shared file\x00"


class FileAddress(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an address says beside its file."""

    recipient: str
    table: str
    """The type, by the word under which the recipient's profile knows it."""
    shown_class: bytes
    expires_at: int


@dataclass(frozen=True, slots=True)
class AddressBook:
    """Writes addresses, and reads its own."""

    secret: bytes = field(repr=False)

    def write(self, file: str, address: FileAddress) -> str:
        """Return what stands behind the name of a file."""
        said = msgspec.msgpack.encode(address)
        return _text_of(self._mac(file, said) + said)

    def read(self, file: str, text: str, now: Instant) -> FileAddress:
        """Return what an address says; raise if it is none of ours, or has ended."""
        refused = Refusal(
            "REFUSED-SHARE-ADDRESS",
            "this address of a file is not good, or no longer: ask for the table again",
        )
        if FILE_ID.fullmatch(file) is None or len(text) > _TEXT_MAX:
            raise refused
        try:
            data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            raise refused from None
        mac, said = data[:_MAC_BYTES], data[_MAC_BYTES:]
        # An address has one form: base64 would read the same from several.
        if _text_of(data) != text or not same_secret(mac, self._mac(file, said)):
            raise refused
        address = msgspec.msgpack.decode(said, type=FileAddress)
        if now >= address.expires_at:
            raise refused
        return address

    def _mac(self, file: str, said: bytes) -> bytes:
        return hmac.digest(self.secret, _PURPOSE + file.encode() + b"\x00" + said, "sha256")


def _text_of(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
