"""What did the user mean by this word or this file?

Principals may be written out or named by a file; certificates may be files or
folders; moments default to now. Everything read from disk is bounded, and a
file that is not what it should be is named in the error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from maia.cli.command import opt
from maia.cli.output import Answer, read_owner, read_principal, row
from maia.clock import system_now
from maia.config.input_files import (
    BadFile,
    kind_of_file,
    read_appointments,
    read_certificates,
    read_definition,
    read_text,
)
from maia.events import Attribute, BadAttribute, Instant, Kind, Vocabulary, attribute_uid

if TYPE_CHECKING:
    from maia.credentials import NetworkName, VerifiedConstitution

__all__ = [
    "AT",
    "BadFile",
    "attribute_from_words",
    "check_new",
    "command_group",
    "moment",
    "network_named",
    "read_appointments",
    "read_certificates",
    "read_constitutions",
    "read_definition",
    "read_owner",
    "read_principal",
    "read_schema",
    "read_text",
    "vocabulary_from",
    "write_new",
]

AT = opt("Judge as of this moment, such as 2026-11-15T08:30:00Z; default: now.", "--at", metavar="TIME")


def command_group(about: str) -> typer.Typer:
    """Return a command that has commands of its own, and prints its help where none is named."""
    return typer.Typer(help=about, no_args_is_help=True, rich_markup_mode=None)


def read_constitutions(paths: Iterable[Path]) -> tuple[VerifiedConstitution, ...]:
    """Return the constitutions of quorums in files and folders."""
    from maia.config.constitutions import read_constitutions as read

    return read(paths)


def network_named(owner: str, name: str) -> NetworkName:
    """Return a network by its owner, as a user names it, and its own name."""
    from maia.credentials import NetworkName

    return NetworkName(read_owner(owner), name)


def check_new(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that is there, unless it is to be replaced, before anything is asked for."""
    if path.exists() and not overwrite:
        raise BadFile(f"`{path}` is already there; `--force` replaces it")


def write_new(path: Path, content: str | bytes, *, overwrite: bool) -> None:
    """Write a file; an existing one is kept unless `force` is set."""
    try:
        with path.open("wb" if overwrite else "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except FileExistsError as problem:
        raise BadFile(f"`{path}` is already there; `--force` replaces it") from problem
    except OSError as problem:
        raise BadFile(f"`{path}` cannot be written: {problem.strerror}") from problem


def vocabulary_from(definition: Path | None) -> Vocabulary | None:
    """Return the attributes that a filter may name, if a definition was given."""
    return None if definition is None else read_definition(definition).definition.vocabulary


def read_schema(path: Path, *, skip: Collection[str], given: Collection[str]) -> tuple[list[str], Answer]:
    """Read the attributes that a schema or a sample describes, but for those left out or given by hand.

    Return them as `name:kind`, and what to answer about them.
    """
    from maia.types.foreign_schemas import schema_from_text

    text = read_text(path)
    found = kind_of_file(text)
    if found is not None:  # it may be a secret, and a header that is none would be quoted
        raise BadFile(f"`{path}` is {found}; a schema or a sample was expected")
    schema = schema_from_text(text, file_name=path.name, skip=skip, given=given)
    count = "" if schema.rows is None else f", {schema.rows} row{'' if schema.rows == 1 else 's'}"
    reasons = {one.name: one.reason for one in schema.attributes if one.reason}
    kinds = {one.name: one.kind.value for one in schema.attributes}
    said = {
        "file": path, "form": schema.form.name.lower().replace("_", "-"), "rows": schema.rows,
        "reasons": reasons, "left_out": schema.skipped, "not_checked": schema.not_carried,
    }  # fmt: skip
    about = Answer(
        row("from", f"{path}, {schema.form.value}{count}", **{"from": said}),
        row("kind", [f"{name}: {kinds[name]} ({reason})" for name, reason in reasons.items()]),
        row("left out", list(schema.skipped)),
        row("not checked", ", ".join(schema.not_carried) or None),
    )
    return [f"{name}:{kind}" for name, kind in kinds.items()], about


def moment(text: str | None) -> Instant:
    """Return the time in the option, or now."""
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
