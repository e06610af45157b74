"""What is a resource called, so that its name cannot be forged or collide?

A name begins with its owner: the key, or the quorum, that alone can grant
rights to it (dissertation, sections 4.2.1 and 5.2). Readable parts are plain
ASCII on purpose: names that look alike are then the same name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from maia.credentials.principals import Owner
from maia.errors import BadInput

__all__ = [
    "FIRST_VERSION",
    "NAME_MAX",
    "BadName",
    "NetworkName",
    "ResourceName",
    "TopicName",
    "TypeName",
    "Version",
    "checked_label",
    "checked_topic_path",
    "checked_version",
    "is_reserved",
]

NAME_MAX: Final = 200

Version: TypeAlias = str
"""`0` for the first version of a type, a lower-case UUID for every later one."""

FIRST_VERSION: Final[Version] = "0"

# What the system itself acts on, under every key: the administration of a domain, and streams such as
# `maia.validity`. Whatever it will need next is called the same way (docs/decisions/names.md).
_RESERVED: Final = ("/admin/", "maia.")

# Segments between dots; inner spaces and hyphens only. No empty segment, no `..`, no wildcard, no control
# character.
_SEGMENT: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_ -]*[A-Za-z0-9_])?"
_LABEL: Final = re.compile(rf"{_SEGMENT}(?:\.{_SEGMENT})*", re.ASCII)
_TOPIC: Final = re.compile(rf"/(?:{_SEGMENT}(?:/{_SEGMENT})*)?", re.ASCII)


class BadName(BadInput):
    """A readable name could be mistaken for another, or means nothing."""

    code = "INPUT-NAME"


def checked_label(text: str) -> str:
    """Return `text` as the readable part of a name, such as `uk.gov.pito.Numberplate`."""
    if len(text) > NAME_MAX or not _LABEL.fullmatch(text):
        raise BadName(
            f"`{_shown(text)}` is not a name: use ASCII letters, digits, `_`, inner spaces and hyphens, "
            f"in segments joined by single dots, at most {NAME_MAX} characters"
        )
    return text


def checked_topic_path(text: str) -> str:
    """Return `text` as a topic path, such as `/traffic/london`; `/` is the root."""
    if len(text) > NAME_MAX or not _TOPIC.fullmatch(text):
        raise BadName(f"`{_shown(text)}` is not a topic path such as `/traffic/london`")
    return text


def is_reserved(name: str) -> bool:
    """Say whether a name, or what a pattern's names begin with, belongs to the system itself.

    A pattern means reserved names only if it spells their beginning out: `/admin/*` does, and
    `*`, `/*` or the blanket resource do not.
    """
    return name.startswith(_RESERVED)


def checked_version(text: str) -> Version:
    """Return `text` as a version: `0`, or a UUID in its canonical lower-case form."""
    if text == FIRST_VERSION:
        return text
    try:
        canonical: str | None = str(UUID(text))
    except ValueError:
        canonical = None  # and not "", which an empty version would equal
    if canonical != text:
        raise BadName(f"`{_shown(text)}` is not a version: `0`, or a lower-case UUID")
    return text


@dataclass(frozen=True, slots=True)
class NetworkName:
    """A publish/subscribe network: its coordinating principal and a readable name."""

    owner: Owner
    name: str

    def __post_init__(self) -> None:
        """Refuse names that could be mistaken for others."""
        checked_label(self.name)

    def __str__(self) -> str:
        """Return the name for a sentence."""
        return f"network `{self.name}` of `{self.owner}`"


@dataclass(frozen=True, slots=True)
class TypeName:
    """One version of an event type: its owner, a readable name, a version."""

    owner: Owner
    name: str
    version: Version

    def __post_init__(self) -> None:
        """Refuse names that could be mistaken for others."""
        checked_label(self.name)
        checked_version(self.version)

    def __str__(self) -> str:
        """Return the name for a sentence."""
        return f"type `{self.name}`, version {self.version}, of `{self.owner}`"


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic: its owner and a path in that owner's hierarchy."""

    owner: Owner
    path: str

    def __post_init__(self) -> None:
        """Refuse paths that could be mistaken for others."""
        checked_topic_path(self.path)

    def __str__(self) -> str:
        """Return the name for a sentence."""
        return f"topic `{self.path}` of `{self.owner}`"


ResourceName: TypeAlias = NetworkName | TypeName | TopicName
"""Something a right can be about."""


def _shown(text: str) -> str:
    return text[:64].encode("unicode_escape").decode()
