"""What did the user mean by this word or this file?

Principals may be written out or named by a file; certificates may be files or
folders; moments default to now. Everything read from disk is bounded, and a
file that is not what it should be is named in the error.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from maia.cli.output import read_owner, read_principal
from maia.config.input_files import (
    BadFile,
    kind_of_file,
    read_appointments,
    read_certificates,
    read_definition,
    read_text,
)
from maia.events import Attribute, BadAttribute, Instant, Kind, Vocabulary, attribute_uid

__all__ = [
    "At",
    "AsJson",
    "BadFile",
    "Described",
    "attribute_from_words",
    "command_group",
    "moment",
    "read_appointments",
    "read_certificates",
    "read_definition",
    "read_owner",
    "read_principal",
    "read_schema",
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


def command_group(about: str) -> typer.Typer:
    """Return a command that has commands of its own, and prints its help where none is named."""
    return typer.Typer(help=about, no_args_is_help=True, rich_markup_mode=None)


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


@dataclass(frozen=True, slots=True)
class Described:
    """What a schema or a sample describes: attributes as `name:kind`, and what to answer about them."""

    attributes: list[str]
    lines: list[str]
    record: dict[str, object]


def read_schema(path: Path, *, skip: Collection[str], given: Collection[str]) -> Described:
    """Read the attributes that a schema or a sample describes, but for those left out or given by hand."""
    from maia.types.foreign_schemas import schema_from_text

    text = read_text(path)
    found = kind_of_file(text)
    if found is not None:  # it may be a secret, and a header that is none would be quoted
        raise BadFile(f"`{path}` is {found}; a schema or a sample was expected")
    schema = schema_from_text(text, file_name=path.name, skip=skip, given=given)
    rows = "" if schema.rows is None else f", {schema.rows} row{'' if schema.rows == 1 else 's'}"
    reasons = {one.name: one.reason for one in schema.attributes if one.reason}
    kinds = {one.name: one.kind.value for one in schema.attributes}
    return Described(
        [f"{name}:{kind}" for name, kind in kinds.items()],
        [
            f"from         {path}, {schema.form.value}{rows}",
            *(f"kind         {name}: {kinds[name]} ({reason})" for name, reason in reasons.items()),
            *(f"left out     {name}" for name in schema.skipped),
            *([f"not checked  {', '.join(schema.not_carried)}"] if schema.not_carried else []),
        ],
        {
            "from": {
                "file": str(path),
                "form": schema.form.name.lower().replace("_", "-"),
                "rows": schema.rows,
                "reasons": reasons,
                "left_out": list(schema.skipped),
                "not_checked": list(schema.not_carried),
            }
        },
    )


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
