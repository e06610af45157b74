"""Who may read shared tables with which bearer token, and under whose right?

    recipients/3f0a9c2e71d44b0e.json      one recipient: whose right, until when, a digest of its secret

A recipient has no right of its own: a member of the organisation has one, its profile lies with the
server, and what the token opens is what that member sees. The token is told once. A file that is taken
away ends the recipient with the next call, for every call opens it anew.
"""

from __future__ import annotations

import json
import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from maia.credentials.keys import same_secret
from maia.errors import BadInput, Refusal
from maia.events import SECOND, Instant
from maia.private_files import make_private_folder, replace_file, sync_folder

RECIPIENTS_MAX: Final = 1024
DAYS_MAX: Final = 366
_FOLDER: Final = "recipients"
_SECRET_BYTES: Final = 32
_ID: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,62}", re.ASCII)
_PREFIX: Final = "maia-share-"
_TOKEN_MAX: Final = 128
_FILE_BYTES_MAX: Final = 16 << 10
_PURPOSE: Final = b"maia/1 share recipient\x00"
_DAY: Final = 86_400 * SECOND


class Recipient(msgspec.Struct, frozen=True):
    """One recipient as it is kept: nothing in it is its token."""

    id: str
    name: str
    profile: str
    """The folder of the profile whose right it reads under."""
    principal: str
    """The key of that profile: another key in its place is another member."""
    added_at: int
    expires_at: int
    digest: bytes

    def __repr__(self) -> str:
        """Return who it is."""
        return f"<Recipient {self.name} as {self.principal}>"

    @property
    def expires(self) -> Instant:
        """Return when its token ends."""
        return Instant(self.expires_at)


class RecipientFolder:
    """The recipients of one server."""

    def __init__(self, data: Path) -> None:
        """Look for recipients below a server's data folder."""
        self._folder = data / _FOLDER
        # Refusing an unknown token takes the work of refusing a known one.
        self._decoy = _digest(os.urandom(_SECRET_BYTES))

    def add(
        self, name: str, profile: Path, principal: str, *, days: int, now: Instant
    ) -> tuple[Recipient, str]:
        """Make a recipient; return it, and the token that is told once."""
        if _NAME.fullmatch(name) is None:
            shown = name[:64].encode("unicode_escape").decode()
            raise BadInput(
                "INPUT-SHARE-NAME", f"`{shown}` cannot name a recipient: 1 to 63 letters, digits and `_.@-`"
            )
        if not 1 <= days <= DAYS_MAX:
            raise BadInput("INPUT-SHARE-NAME", f"a recipient is added for 1 to {DAYS_MAX} days")
        found = self.all()
        if any(one.name == name for one in found):
            raise BadInput(
                "INPUT-SHARE-NAME", f"there is a recipient `{name}`; `maia share remove {name}` ends it"
            )
        if len(found) >= RECIPIENTS_MAX:
            raise BadInput("INPUT-SHARE-NAME", f"there are {RECIPIENTS_MAX} recipients, and no more may be")
        secret, called = os.urandom(_SECRET_BYTES), os.urandom(8).hex()
        until = int(now) + days * _DAY
        made = Recipient(called, name, str(profile.resolve()), principal, int(now), until, _digest(secret))
        make_private_folder(self._folder)
        replace_file(self._file(called), msgspec.json.encode(made))
        return made, f"{_PREFIX}{called}-{_text_of(secret)}"

    def by_token(self, token: str, now: Instant) -> Recipient:
        """Return whose token this is; every failure looks the same, but for one that has expired."""
        word = token[:_TOKEN_MAX].removeprefix(_PREFIX)
        called, _, text = word.partition("-")
        found = self._read(called)
        secret = b""
        with suppress(ValueError):
            secret = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            secret = secret if _text_of(secret) == text else b""  # a token has one form
        is_right = same_secret(_digest(secret), self._decoy if found is None else found.digest)
        if found is None or not is_right or not token.startswith(_PREFIX):
            raise Refusal("REFUSED-SHARE-BEARER", "the bearer token is missing or opens nothing here")
        return _not_expired(found, now)

    def by_id(self, called: str, now: Instant) -> Recipient:
        """Return a recipient that is still one."""
        found = self._read(called)
        if found is None:
            raise Refusal("REFUSED-SHARE-BEARER", "the recipient of this address was removed")
        return _not_expired(found, now)

    def all(self) -> list[Recipient]:
        """Return all recipients, by their names."""
        if not self._folder.is_dir():
            return []
        found = [self._read(one.stem) for one in self._folder.glob("*.json")]
        return sorted((one for one in found if one is not None), key=lambda one: one.name)

    def remove(self, name: str) -> Recipient:
        """End a recipient: the next call with its token, or with one of its addresses, is refused."""
        for one in self.all():
            if one.name == name:
                self._file(one.id).unlink(missing_ok=True)
                sync_folder(self._folder)
                return one
        raise BadInput(
            "INPUT-SHARE-NAME", f"there is no recipient `{name[:64]}`; `maia share list` shows all"
        )

    def _file(self, called: str) -> Path:
        return self._folder / f"{called}.json"

    def _read(self, called: str) -> Recipient | None:
        if _ID.fullmatch(called) is None:
            return None
        try:
            with self._file(called).open("rb") as file:
                found = msgspec.json.decode(file.read(_FILE_BYTES_MAX), type=Recipient)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            raise BadInput(
                "INPUT-SHARE-FILE", f"the file of the recipient `{called}` is damaged; remove and add it anew"
            ) from problem
        return found if found.id == called else None


def profile_text(recipient: Recipient, token: str, endpoint: str) -> str:
    """Return the profile file that a recipient's programs read."""
    until = recipient.expires.datetime.strftime("%Y-%m-%dT%H:%M:%S.0Z")
    said = {"endpoint": endpoint, "bearerToken": token, "expirationTime": until}
    return json.dumps({"shareCredentialsVersion": 1, **said}, indent=2) + "\n"


def _not_expired(found: Recipient, now: Instant) -> Recipient:
    if now >= found.expires_at:
        raise Refusal("REFUSED-SHARE-EXPIRED", f"this profile expired at {found.expires}: ask for a new one")
    return found


def _text_of(secret: bytes) -> str:
    return urlsafe_b64encode(secret).decode().rstrip("=")


def _digest(secret: bytes) -> bytes:
    # The secret is as random as a key, so nothing slower than this is needed.
    return sha256(_PURPOSE + secret).digest()
