"""Where are accounts kept, and the certificates that were issued to them?

accounts/sensor-1/account.json     the sealed account key
accounts/sensor-1/key.pub          whom to issue certificates to
accounts/sensor-1/*.cert           what was issued, put here by whoever runs the gateway
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from maia.config.input_files import read_certificates
from maia.credentials import Principal, SignedCertificate, SigningKey
from maia.errors import MaiaError, Refusal
from maia.gateway.accounts import (
    SECRET_BYTES,
    Account,
    BadAccountName,
    account_from_bytes,
    account_to_bytes,
    check_name,
    new_account,
    open_account,
    secret_of_token,
    token_of,
)
from maia.private_files import create_private, make_private_folder

_ACCOUNT: Final = "account.json"
_PUBLIC: Final = "key.pub"
_SECRET: Final = "gateway.secret"  # noqa: S105 - the name of a file
_FILE_BYTES_MAX: Final = 64 << 10


class AccountFolder:
    """The accounts of one gateway."""

    def __init__(self, data: Path) -> None:
        """Look for accounts below a gateway's data folder."""
        self._data, self._folder = data, data / "accounts"
        # Refusing an unknown name takes the work of refusing a known one.
        self._decoy = new_account("nobody", SigningKey.from_seed(os.urandom(32)), os.urandom(32), bytes(16))

    def add(self, name: str, client: Principal | None) -> tuple[Path, Account, str | None]:
        """Make an account and its key; return its folder, and the token unless a TLS key stands for it."""
        folder = self._place(check_name(name), client)
        if (folder / _ACCOUNT).exists():
            raise BadAccountName(
                "INPUT-ACCOUNT-EXISTS",
                f"`{folder}` holds an account already; remove the folder to make it anew",
            )
        secret = os.urandom(SECRET_BYTES) if client is None else self._own_secret()
        key = SigningKey.from_seed(os.urandom(32))
        account = new_account(name, key, secret, os.urandom(16), client)
        make_private_folder(folder)
        for file, data in ((_PUBLIC, f"{key.principal}\n".encode()), (_ACCOUNT, account_to_bytes(account))):
            with create_private(folder / file) as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
        return folder, account, token_of(secret) if client is None else None

    def by_token(self, name: str | None, token: bytes | None) -> tuple[str, SigningKey]:
        """Return the account key of a user name and token; every failure looks the same."""
        account = None
        try:
            if name is not None:
                account = self._read(self._folder / check_name(name))
        except (MaiaError, OSError):
            account = None
        if account is None or account.client is not None:
            open_account(self._decoy, secret_of_token(token))
            raise Refusal("REFUSED-GATEWAY-ACCOUNT", "user name and token do not belong together")
        return account.name, open_account(account, secret_of_token(token))

    def by_key(self, client: Principal) -> tuple[str, SigningKey]:
        """Return the account key of a client that has proved its own key by TLS."""
        try:
            account = self._read(self._place("", client))
        except (MaiaError, OSError):
            raise Refusal("REFUSED-GATEWAY-ACCOUNT", f"`{client}` has no account at this gateway") from None
        if account.client != str(client):
            raise Refusal("REFUSED-GATEWAY-ACCOUNT", f"`{client}` has no account at this gateway")
        return f"key:{client.key.hex()}", open_account(account, self._own_secret())

    def certificates(self, account: str) -> tuple[SignedCertificate, ...]:
        """Return what was issued to an account, as its folder holds it now."""
        return tuple(read_certificates([self._folder / account.removeprefix("key:")]))

    def stamp(self, account: str) -> int:
        """Return a number that changes when a certificate comes or goes."""
        try:
            return (self._folder / account.removeprefix("key:")).stat().st_mtime_ns
        except OSError:
            return 0

    def _place(self, name: str, client: Principal | None) -> Path:
        return self._folder / (name if client is None else client.key.hex())

    def _read(self, folder: Path) -> Account:
        with (folder / _ACCOUNT).open("rb") as file:
            return account_from_bytes(file.read(_FILE_BYTES_MAX))

    def _own_secret(self) -> bytes:
        path = self._data / _SECRET
        if not path.exists():
            make_private_folder(self._data)
            with create_private(path) as file:
                file.write(os.urandom(SECRET_BYTES))
        return path.read_bytes()[:SECRET_BYTES]
