"""Where does a signing key live, and who can read it there?

In a file of its own that only its owner may read. Such a file is created
once, never overwritten, and refused on the way in if another user could have
read or replaced it. With a passphrase, the seed inside is encrypted. The
public half lies beside it in plain text, so that people can tell their keys
apart. New keys are made here, because chance lives in `runtime/`.

    (maia-key (version 1) (public (ed25519 KEY)) (seed SEED))
    (maia-key (version 1) (public (ed25519 KEY))
      (sealed-seed scrypt-aes-256-gcm (salt SALT) (nonce NONCE) (box BOX)))
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from maia.canonical import BadSExpression, Limits, SExpression, read_advanced, write_advanced, write_canonical
from maia.config.input_files import kind_of_file
from maia.credentials.keys import KEY_BYTES, Principal, SigningKey, principal_from_bytes, same_secret
from maia.errors import BadInput, BrokenCredential, Unavailable
from maia.places import is_address
from maia.private_files import sync_folder

__all__ = [
    "WrongPassphrase",
    "create_key_file",
    "load_signing_key",
    "new_signing_key",
    "public_half",
    "read_guarded_expression",
    "write_guarded_file",
]

_FILE_BYTES_MAX: Final = 1 << 18
_LIMITS: Final = Limits(size_max=_FILE_BYTES_MAX, depth_max=8)
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_METHOD: Final = b"scrypt-aes-256-gcm"

# 64 MiB and a good part of a second for each guess, which an owner pays once per start.
_SCRYPT_N: Final = 1 << 16
_SCRYPT_R: Final = 8
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_BOX_BYTES: Final = KEY_BYTES + 16


class WrongPassphrase(BrokenCredential):
    """The passphrase does not open the key file."""

    code = "CREDENTIAL-PASSPHRASE"


def new_signing_key() -> SigningKey:
    """Make a key from the random bytes of the operating system."""
    return SigningKey.from_seed(os.urandom(KEY_BYTES))


def create_key_file(path: Path, key: SigningKey, passphrase: str | None = None) -> None:
    """Write a key to a new file that only its owner may read; it is on the disk when this returns."""
    if passphrase == "":
        raise BadInput(
            "INPUT-KEY-FILE", "a passphrase must not be empty; leave it out to store the key unencrypted"
        )
    write_guarded_file(path, write_advanced(_to_expression(key, passphrase)) + "\n")


def write_guarded_file(path: Path, text: str) -> None:
    """Write a secret to a new file that only its owner may read; it is on the disk when this returns."""
    # O_EXCL refuses whatever is there already, a dangling symbolic link included.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        raise BadInput(
            "INPUT-KEY-FILE-EXISTS", f"`{path}` exists already, and a key file is never overwritten"
        ) from None
    except OSError as problem:
        _refuse_access(path, problem)
    try:
        _write_through(descriptor, text.encode("ascii"))
        sync_folder(path.parent)
    except OSError as problem:
        with suppress(OSError):
            path.unlink()
        _refuse_access(path, problem)


def load_signing_key(path: Path, passphrase: str | None = None) -> SigningKey:
    """Read a key back; refuse a file that others could have read or replaced."""
    return _from_expression(path, read_guarded_expression(path), passphrase)


def process_key(data: Path, number: int) -> Path:
    """Return where the key of one of several processes of a broker is, in the broker's data folder."""
    return data / f"process-{number}" / "process.key"


def public_half(path: Path) -> Principal:
    """Return whose key a file holds, without asking for its passphrase."""
    match read_guarded_expression(path):
        case (b"maia-key", (b"version", b"1"), (b"public", (b"ed25519", bytes(key))), _):
            return principal_from_bytes(key)
    raise BadInput("INPUT-KEY-FILE", f"`{path}` does not hold a signing key")


def _to_expression(key: SigningKey, passphrase: str | None) -> SExpression:
    public = (b"public", (b"ed25519", key.principal.key))
    seed = key.reveal_seed()
    if passphrase is None:
        return (b"maia-key", (b"version", b"1"), public, (b"seed", seed))
    salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    # The public key is bound in, so that a sealed seed cannot be moved below another name.
    box = AESGCM(_stretched(passphrase, salt)).encrypt(nonce, seed, write_canonical(public))
    sealed = (b"sealed-seed", _METHOD, (b"salt", salt), (b"nonce", nonce), (b"box", box))
    return (b"maia-key", (b"version", b"1"), public, sealed)


def _from_expression(path: Path, expression: SExpression, passphrase: str | None) -> SigningKey:
    match expression:
        case (
            b"maia-key",
            (b"version", b"1"),
            (b"public", (b"ed25519", bytes(public))),
            (b"seed", bytes(seed)),
        ):
            if passphrase is not None:
                raise BadInput("INPUT-KEY-FILE", f"`{path}` is not encrypted, and a passphrase was given")
        case (
            b"maia-key",
            (b"version", b"1"),
            (b"public", (b"ed25519", bytes(public))),
            (b"sealed-seed", method, (b"salt", bytes(salt)), (b"nonce", bytes(nonce)), (b"box", bytes(box))),
        ) if method == _METHOD:
            if passphrase is None:
                raise WrongPassphrase(f"`{path}` is encrypted and needs its passphrase")
            seed = _opened(path, passphrase, public, (salt, nonce, box))
        case _:
            raise BadInput("INPUT-KEY-FILE", f"`{path}` does not hold a signing key")
    if len(seed) != KEY_BYTES:
        raise BadInput("INPUT-KEY-FILE", f"`{path}` does not hold a signing key: its seed has the wrong size")
    key = SigningKey.from_seed(seed)
    if not same_secret(key.principal.key, public):
        raise BadInput("INPUT-KEY-FILE", f"the two halves of the key in `{path}` do not belong together")
    return key


def _opened(path: Path, passphrase: str, public: bytes, sealed: tuple[bytes, bytes, bytes]) -> bytes:
    salt, nonce, box = sealed
    if (len(salt), len(nonce), len(box)) != (_SALT_BYTES, _NONCE_BYTES, _BOX_BYTES):
        raise BadInput("INPUT-KEY-FILE", f"the sealed seed in `{path}` has the wrong size")
    bound = write_canonical((b"public", (b"ed25519", public)))
    try:
        return AESGCM(_stretched(passphrase, salt)).decrypt(nonce, box, bound)
    except InvalidTag:
        raise WrongPassphrase(f"the passphrase does not open `{path}`") from None


def _stretched(passphrase: str, salt: bytes) -> bytes:
    try:
        secret = passphrase.encode("utf-8")
    except UnicodeEncodeError:
        raise WrongPassphrase("a passphrase must be Unicode text") from None
    return Scrypt(salt=salt, length=KEY_BYTES, n=_SCRYPT_N, r=_SCRYPT_R, p=1).derive(secret)


def read_guarded_expression(path: Path) -> SExpression:
    """Read a secret back; refuse a file that others could have read or replaced."""
    # What is checked is the open file, not its name: a name can be changed in between.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        _refuse_access(path, problem)
    try:
        found = os.fstat(descriptor)
        data = os.read(descriptor, _FILE_BYTES_MAX + 1) if stat.S_ISREG(found.st_mode) else b""
        _check_not_mixed_up(path, data)  # before its mode: a public file is no leaked secret
        _check_guarded(path, found)
    except OSError as problem:
        _refuse_access(path, problem)
    finally:
        os.close(descriptor)
    if len(data) > _FILE_BYTES_MAX:
        raise BadInput("INPUT-KEY-FILE", f"`{path}` is larger than any key file")
    try:
        return read_advanced(data.decode("ascii"), _LIMITS)
    except (UnicodeDecodeError, BadSExpression):
        # The cause is left out: what cannot be read may still be most of a secret.
        raise BadInput("INPUT-KEY-FILE", f"`{path}` does not hold a signing key") from None


def _check_not_mixed_up(path: Path, data: bytes) -> None:
    kind = kind_of_file(data.decode("ascii", errors="replace"))
    if kind is not None and kind != "a secret key":
        raise BadInput("INPUT-KEY-FILE", f"`{path}` is {kind}; a secret key was expected")


def _check_guarded(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BrokenCredential("CREDENTIAL-KEY-FILE-EXPOSED", f"`{path}` is not an ordinary file")
    if found.st_uid != os.geteuid():
        raise BrokenCredential(
            "CREDENTIAL-KEY-FILE-EXPOSED", f"`{path}` belongs to another user, who could read or replace it"
        )
    if found.st_mode & _OTHERS:
        raise BrokenCredential(
            "CREDENTIAL-KEY-FILE-EXPOSED",
            f"`{path}` can be used by others (mode {stat.S_IMODE(found.st_mode):04o}); make it 0600, "
            f"and think of the key as known",
        )


def _write_through(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _refuse_access(path: Path, problem: OSError) -> NoReturn:
    if problem.errno == errno.ELOOP:
        raise BrokenCredential(
            "CREDENTIAL-KEY-FILE-EXPOSED", f"`{path}` is a symbolic link, and its maker chose the key"
        ) from None
    if problem.errno == errno.ENOENT and is_address(str(path)):
        raise BadInput(
            "INPUT-KEY-ADDRESS",
            f"`{path}` is an address, and a secret is in a file of this machine alone, whose owner and mode "
            "are checked: name such a file; the workers of a Spark job get keys from its driver",
        ) from None
    raise Unavailable(
        "UNAVAILABLE-KEY-FILE", f"`{path}` cannot be used: {os.strerror(problem.errno or 0).lower()}"
    ) from problem
