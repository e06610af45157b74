"""What did the user mean by this word or this file?

Principals may be written out or named by a file; certificates may be files or
folders; moments default to now. Everything read from disk is bounded, and a
file that is not what it should be is named in the error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from maia.config.input_files import (
    BadFile,
    read_appointments,
    read_certificates,
    read_definition,
    read_owner,
    read_principal,
    read_text,
)
from maia.events import Attribute, BadAttribute, Instant, Kind, Vocabulary, attribute_uid

__all__ = [
    "At",
    "AsJson",
    "BadFile",
    "attribute_from_words",
    "moment",
    "read_appointments",
    "read_certificates",
    "read_definition",
    "read_owner",
    "read_principal",
    "read_text",
    "vocabulary_from",
    "write_new",
]

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Answer with one JSON object, for programs.")]
At: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="TIME", help="Judge as of this moment, such as 2026-11-15T08:30:00Z; default: now."
    ),
]


def write_new(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a file; an existing one is kept unless `force` is set."""
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as problem:
        raise BadFile(f"`{path}` is already there; `--force` replaces it") from problem
    except OSError as problem:
        raise BadFile(f"`{path}` cannot be written: {problem.strerror}") from problem


def vocabulary_from(definition: Path | None) -> Vocabulary | None:
    """Return the attributes that a filter may name, if a definition was given."""
    return None if definition is None else read_definition(definition).definition.vocabulary


def moment(text: str | None) -> Instant:
    """Return the time in the option, or now."""
    from maia.clock import system_now

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
