"""Which key, certificate or definition does this argument or file hold?

Commands and the broker's configuration name keys, certificates and type
definitions by file. Everything read from disk is bounded, and a file that is
not what it should be is named in the error. Nothing is verified here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from maia.errors import BadInput, MaiaError

if TYPE_CHECKING:
    from maia.credentials import Owner, Principal, SignedCertificate
    from maia.credentials.appointments import SignedAppointment
    from maia.credentials.identity import SignedIdentity
    from maia.types import SignedDefinition

__all__ = [
    "BadFile",
    "GRANT",
    "files_in",
    "kind_of_file",
    "read_appointments",
    "read_certificates",
    "read_definition",
    "read_definitions",
    "read_identity",
    "read_owner",
    "read_principal",
    "read_text",
    "readable_in",
]

_Read = TypeVar("_Read")

FILE_BYTES_MAX: Final = 1 << 20
QUORUM_SUFFIX: Final = ".quorum"
"""How files of `maia quorum` end; they lie beside certificates."""
FILES_MAX: Final = 10_000
_BEGINNING: Final = 64


class BadFile(BadInput):
    """A file is missing, too large, already there, or does not hold what it should."""

    code = "INPUT-FILE"


GRANT: Final = "a grant of `maia grant`"
_KINDS: Final = (
    ("ed25519:", "a public key"),
    ("(maia-key", "a secret key"),
    ("(signed (cert", "a certificate"),
    ("(signed (name-cert", "a name certificate"),
    ("(signed (event-type", "a type definition"),
    ("(signed (appointment", "an appointment certificate"),
    ("(signed (role-membership", "a role membership certificate"),
    ("(signed (identity", "an identity statement"),
    ("(quorum", "a constitution"),
    ("policy ", "a policy"),
    ("grant = ", GRANT),
)


def kind_of_file(text: str) -> str | None:
    """Say what a text is by how it begins, so that an error names the kind of a file without quoting it."""
    begins = " ".join(text[:_BEGINNING].split())
    return next((kind for beginning, kind in _KINDS if begins.startswith(beginning)), None)


def read_text(path: Path) -> str:
    """Read a small text file; say which file it was if that fails."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise BadFile(f"`{path}` is larger than the {FILE_BYTES_MAX} bytes that are read")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        raise BadFile(f"there is no file `{path}`") from problem
    except UnicodeDecodeError as problem:
        raise BadFile(f"`{path}` is not a text file") from problem
    except OSError as problem:
        raise BadFile(f"`{path}` cannot be read: {problem.strerror}") from problem


def read_principal(word: str) -> Principal:
    """Return the principal written as `ed25519:…` or kept in a `.pub` file."""
    from maia.credentials import principal_from_text

    if word.startswith("ed25519:"):
        return principal_from_text(word)
    return _named(Path(word), lambda text: principal_from_text(text.strip()), "a public key")


def key_file_name(key: Principal) -> str:
    """Return what the file of a key is called where many lie in one folder."""
    return f"{str(key).removeprefix('ed25519:')[:32]}.pub"


def read_owner(word: str) -> Owner:
    """Return an owner: a principal, or a quorum by its file or by `quorum:` and its digest."""
    from maia.credentials import QuorumId, evidence_from_text, quorum_of

    if word.endswith(QUORUM_SUFFIX):
        return quorum_of(_named(Path(word), evidence_from_text, "a quorum's constitution"))
    if not word.startswith("quorum:"):
        return read_principal(word)
    try:
        digest = bytes.fromhex(word.removeprefix("quorum:"))
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise BadFile(f"`{word[:80]}` is not `quorum:` and 64 hexadecimal digits")
    return QuorumId(digest)


def files_in(paths: Iterable[Path], suffix: str) -> list[Path]:
    """Return files, and those with a suffix in folders, in a stable order; refuse more than are read."""
    found = [one for path in paths for one in (sorted(path.glob(f"*{suffix}")) if path.is_dir() else [path])]
    if len(found) > FILES_MAX:
        raise BadFile(f"{len(found)} `*{suffix}` are more than the {FILES_MAX} that are read at once")
    return found


def read_certificates(paths: Iterable[Path]) -> list[SignedCertificate]:
    """Read certificates from files, and from every `*.cert` in folders, in a stable order.

    Constitutions that are named among them are for `read_constitutions`.
    """
    from maia.credentials import certificate_from_text

    files = files_in((one for one in paths if one.suffix != QUORUM_SUFFIX), ".cert")
    return [_named(file, certificate_from_text, "a certificate") for file in files]


def readable_in(folders: Sequence[Path]) -> list[SignedCertificate]:
    """Return the certificates in folders, without files that cannot be read, which others report."""
    found: list[SignedCertificate] = []
    for file in sorted(one for folder in folders for one in folder.glob("*.cert")):
        with suppress(MaiaError):
            found += read_certificates([file])
    return found


def read_appointments(paths: Iterable[Path]) -> list[SignedAppointment]:
    """Read appointment and role membership certificates from files, and from `*.appointment` in folders."""
    from maia.credentials.appointments import appointment_from_text

    files = files_in(paths, ".appointment")
    return [_named(file, appointment_from_text, "an appointment certificate") for file in files]


def read_identity(path: Path) -> SignedIdentity:
    """Read an identity statement from a file; nothing is verified yet."""
    from maia.credentials.identity import identity_from_text

    return _named(path, identity_from_text, "an identity statement")


def read_definition(path: Path) -> SignedDefinition:
    """Read a type definition from a file; nothing is verified yet."""
    from maia.types import definition_from_text

    return _named(path, definition_from_text, "a type definition")


def read_definitions(paths: Iterable[Path]) -> list[SignedDefinition]:
    """Read type definitions from files, and from every `*.type` in folders; nothing is verified yet."""
    return [read_definition(file) for file in files_in(paths, ".type")]


@lru_cache(maxsize=256)
def _read_once(read: Callable[[str], object], text: str) -> object:
    """Read a text; one that was read before means the same."""
    return read(text)


def _named(path: Path, read: Callable[[str], _Read], expected: str) -> _Read:
    text = read_text(path)
    try:
        return cast("_Read", _read_once(read, text))  # what it was given is what it returns
    except MaiaError as problem:
        found = kind_of_file(text)
        if found is not None and found != expected:
            # The cause is left out: it may quote the file, and the file may be a secret.
            raise BadFile(f"`{path}` is {found}; {expected} was expected") from None
        if expected == "a public key":
            shape = "`ed25519:` and 64 lower-case hexadecimal digits"
            raise BadFile(f"`{path}` does not hold a public key, which is {shape}") from None
        if not text.lstrip().startswith(("(", "{", "|")):
            raise BadFile(f"`{path}` does not hold {expected}") from None
        raise BadFile(f"`{path}`: {problem.message} [{problem.code}]") from problem
