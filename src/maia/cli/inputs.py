"""What did the user mean by this word or this file?

Principals may be written out or named by a file; certificates may be files or
folders; moments default to now. Everything read from disk is bounded, and a
file that is not what it should be is named in the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypeVar

import typer

from maia.errors import BadInput, MaiaError
from maia.events import Attribute, BadAttribute, Instant, Kind, Vocabulary, attribute_uid

if TYPE_CHECKING:
    from maia.credentials import Owner, Principal, SignedCertificate
    from maia.types import SignedDefinition

__all__ = [
    "At",
    "AsJson",
    "BadFile",
    "attribute_from_words",
    "moment",
    "read_certificates",
    "read_definition",
    "read_owner",
    "read_principal",
    "read_text",
    "vocabulary_from",
    "write_new",
]

_Read = TypeVar("_Read")

FILE_BYTES_MAX: Final = 1 << 20
FILES_MAX: Final = 10_000

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Answer with one JSON object, for programs.")]
At: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="TIME", help="Judge as of this moment, such as 2026-11-15T08:30:00Z; default: now."
    ),
]


class BadFile(BadInput):
    """A file is missing, too large, already there, or does not hold what it should."""

    code = "INPUT-FILE"


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


def write_new(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a file; one that is already there is kept unless the user said otherwise."""
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as problem:
        raise BadFile(f"`{path}` is already there; `--force` replaces it") from problem
    except OSError as problem:
        raise BadFile(f"`{path}` cannot be written: {problem.strerror}") from problem


def read_principal(word: str) -> Principal:
    """Return the principal written as `ed25519:…` or kept in a `.pub` file."""
    from maia.credentials import principal_from_text

    if word.startswith("ed25519:"):
        return principal_from_text(word)
    return principal_from_text(read_text(Path(word)).strip())


def read_owner(word: str) -> Owner:
    """Return an owner: a principal, or `quorum:` and the digest of its constitution."""
    from maia.credentials import QuorumId

    if not word.startswith("quorum:"):
        return read_principal(word)
    try:
        digest = bytes.fromhex(word.removeprefix("quorum:"))
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise BadFile(f"`{word[:80]}` is not `quorum:` and 64 hexadecimal digits")
    return QuorumId(digest)


def read_certificates(paths: Iterable[Path]) -> list[SignedCertificate]:
    """Read certificates from files, and from every `*.cert` in folders, in a stable order."""
    from maia.credentials import certificate_from_text

    files: list[Path] = []
    for path in paths:
        files.extend(sorted(path.glob("*.cert")) if path.is_dir() else [path])
    if len(files) > FILES_MAX:
        raise BadFile(f"{len(files)} certificates are more than the {FILES_MAX} that are read at once")
    return [_named(file, certificate_from_text) for file in files]


def read_definition(path: Path) -> SignedDefinition:
    """Read a type definition from a file; nothing is verified yet."""
    from maia.types import definition_from_text

    return _named(path, definition_from_text)


def vocabulary_from(definition: Path | None) -> Vocabulary | None:
    """Return the attributes that a filter may name, if a definition was given."""
    return None if definition is None else read_definition(definition).definition.vocabulary


def moment(text: str | None) -> Instant:
    """Return the moment the user named, or now."""
    from maia.runtime.clock import system_now

    return system_now() if text is None else Instant.parse(text)


def attribute_from_words(words: str) -> Attribute:
    """Read `name:kind` or `name:kind:uid`; without a uid a fresh one is made."""
    from uuid import uuid4

    name, _, rest = words.partition(":")
    kind_word, _, uid = rest.partition(":")
    try:
        kind = Kind(kind_word)
    except ValueError:
        kinds = ", ".join(kind.value for kind in Kind)
        raise BadAttribute(f"`{words[:80]}` is not `name:kind` with a kind of {kinds}") from None
    return Attribute(name, attribute_uid(uid or str(uuid4())), kind)


def _named(path: Path, read: Callable[[str], _Read]) -> _Read:
    try:
        return read(read_text(path))
    except BadFile:
        raise
    except MaiaError as problem:
        raise BadFile(f"`{path}`: {problem.message} [{problem.code}]") from problem
