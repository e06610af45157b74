"""How does the gateway act for a client whose private key it does not have?

It does not. For each client the gateway makes a key of its own, the *account key*, and the client's
principal, or its domain, issues certificates to that key: a delegation that an issuer can bound, date and
revoke like any other. The broker sees a chain that ends in the key of this one account. The gateway itself
holds no certificate, so there is no right of its own that a client could borrow (A15).

An account key lies sealed on disk: under the client's token, which the gateway does not keep, or, for
clients that prove a key by TLS, under the gateway's own secret (docs/decisions/mqtt-gateway.md).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from maia.credentials import Principal, SigningKey
from maia.errors import BadInput, Refusal

SECRET_BYTES: Final = 32
_SALT_BYTES: Final = 16
_NONCE: Final = bytes(12)
"""Each sealing key is used once: its salt is new for every account."""
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_@-]|\.(?!\.)){0,63}", re.ASCII)
_PREFIX: Final = "maia-"
_INFO: Final = b"maia/1 gateway account\x00"


class BadAccountName(BadInput):
    """The name of an account is not 1 to 64 letters, digits and `_@.-` of ASCII."""

    code = "INPUT-ACCOUNT-NAME"


class Account(msgspec.Struct, frozen=True):
    """One client's account as it is kept: nothing in it opens it."""

    name: str
    principal: str
    """The account key's public half, to which certificates are issued."""
    salt: bytes
    sealed: bytes
    client: str | None = None
    """The principal that has to prove its key by TLS; None for an account with a token."""


def check_name(name: str) -> str:
    """Return a name that can be a user name and the name of a folder; refuse every other."""
    if _NAME.fullmatch(name) is None:
        shown = name[:64].encode("unicode_escape").decode()
        raise BadAccountName(f"`{shown}` cannot name an account: 1 to 64 letters, digits and `_@.-`")
    return name


def token_of(secret: bytes) -> str:
    """Return a secret as the text that a client has for its password."""
    return _PREFIX + urlsafe_b64encode(secret).decode().rstrip("=")


def secret_of_token(token: bytes | None) -> bytes:
    """Return the secret in a password; one that is no token is a secret that opens nothing."""
    text = (token or b"").removeprefix(_PREFIX.encode())
    try:
        secret = urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except ValueError:
        return b""
    return secret if len(secret) == SECRET_BYTES else b""


def new_account(
    name: str, key: SigningKey, secret: bytes, salt: bytes, client: Principal | None = None
) -> Account:
    """Seal an account key; `salt` is random and new."""
    principal = str(key.principal)
    bound = None if client is None else str(client)
    sealed = AESGCM(_sealing_key(secret, salt)).encrypt(
        _NONCE, key.reveal_seed(), _context(check_name(name), principal, bound)
    )
    return Account(name, principal, salt, sealed, bound)


def open_account(account: Account, secret: bytes) -> SigningKey:
    """Return the account key if `secret` is the one it was sealed under; it is compared in constant time."""
    try:
        seed = AESGCM(_sealing_key(secret, account.salt)).decrypt(
            _NONCE, account.sealed, _context(account.name, account.principal, account.client)
        )
    except InvalidTag:
        raise Refusal("REFUSED-GATEWAY-ACCOUNT", "user name and token do not belong together") from None
    return SigningKey.from_seed(seed)


def account_to_bytes(account: Account) -> bytes:
    """Return what is written to the account's file."""
    return msgspec.json.encode(account)


def account_from_bytes(data: bytes) -> Account:
    """Read an account's file."""
    try:
        account = msgspec.json.decode(data, type=Account)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise BadInput(
            "INPUT-ACCOUNT-FILE", "the file of an account is damaged; make the account anew"
        ) from problem
    if len(account.salt) != _SALT_BYTES:
        raise BadInput("INPUT-ACCOUNT-FILE", "the file of an account is damaged; make the account anew")
    return account


def _sealing_key(secret: bytes, salt: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt, _INFO).derive(secret)


def _context(name: str, principal: str, client: str | None) -> bytes:
    return msgspec.json.encode([name, principal, client])
