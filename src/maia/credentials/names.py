"""What is a resource called, so that its name cannot be forged or collide?

A name begins with its owner: the key, or the quorum, that alone can grant
rights to it (dissertation, sections 4.2.1 and 5.2). Readable parts are plain
ASCII on purpose: names that look alike are then the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar, Final, TypeAlias
from uuid import UUID

from maia.canonical import SExpression
from maia.credentials.keys import BadCertificate, Owner
from maia.errors import BadInput

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
    """Return whether a name, or what a pattern's names begin with, belongs to the system itself.

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
    version: ClassVar[None] = None

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
    version: ClassVar[None] = None

    def __post_init__(self) -> None:
        """Refuse paths that could be mistaken for others."""
        checked_topic_path(self.path)

    @property
    def name(self) -> str:
        """Return the path: what a name is for others."""
        return self.path

    def __str__(self) -> str:
        """Return the name for a sentence."""
        return f"topic `{self.path}` of `{self.owner}`"


ResourceName: TypeAlias = NetworkName | TypeName | TopicName
"""Something a right can be about."""


def _shown(text: str) -> str:
    return text[:64].encode("unicode_escape").decode()


# Patterns of names, and two of them together.


INFIXES_MAX: Final = 16

# The signs of a label or a topic path; nothing else can, so no other sign can mean anything.
_FRAGMENT: Final = re.compile(r"[A-Za-z0-9_ ./-]*", re.ASCII)
_NEVER: Final = re.compile(r"\.\.|//", re.ASCII)


class BadPattern(BadInput):
    """A text is not a name pattern."""

    code = "INPUT-NAME-PATTERN"


class PatternTooComplex(BadPattern):
    """Too many different infixes would have to match at once."""

    code = "INPUT-NAME-PATTERN-SIZE"


@dataclass(frozen=True, slots=True)
class NamePattern:
    """The names that equal `exact`; or else that begin, end and contain what is said here.

    `prefix` and `suffix` may overlap in a name, as long as it has at least
    `min_length` characters. Build one with `parse_name_pattern`.
    """

    exact: str | None
    prefix: str = ""
    suffix: str = ""
    min_length: int = 0
    infixes: tuple[str, ...] = ()

    @property
    def is_reserved(self) -> bool:
        """Return whether the names meant belong to the system itself; a pattern never means both sorts."""
        return is_reserved(self.prefix if self.exact is None else self.exact)

    def matches(self, name: str) -> bool:
        """Return whether `name` is one of the names meant."""
        if self.exact is not None:
            return name == self.exact
        return (
            len(name) >= self.min_length
            and name.startswith(self.prefix)
            and name.endswith(self.suffix)
            and name.startswith(_RESERVED) == self.prefix.startswith(_RESERVED)
            and (not self.infixes or all(infix in name for infix in self.infixes))
        )

    def intersection(self, other: NamePattern) -> NamePattern | None:
        """Return the pattern of the names that both match; None if there are none."""
        if self is other:
            return self
        if self.exact is not None:
            return self if other.matches(self.exact) else None
        if other.exact is not None:
            return other if self.matches(other.exact) else None
        return _both(self, other) if self.is_reserved == other.is_reserved else None

    def parts(self) -> tuple[str, ...]:
        """Return the patterns of the six written forms whose conjunction this is."""
        if self.exact is not None:
            return (self.exact,)
        ends = _ends(self.prefix, self.suffix, self.min_length)
        infixes = [f"*{infix}*" for infix in self.infixes]
        return (*ends, *infixes) or ("*",)

    def __str__(self) -> str:
        """Return the pattern as people write it; a conjunction is joined by `&`."""
        return " & ".join(self.parts())


ANY_NAME: Final = NamePattern(None)


def exact_name(name: str) -> NamePattern:
    """Return the pattern that matches `name` and nothing else."""
    return NamePattern(_checked_fragment(name, name))


def parse_name_pattern(text: str) -> NamePattern:
    """Read one of the six forms: a name, `p*`, `*s`, `p*s`, `*i*`, `*`."""
    if not 0 < len(text) <= NAME_MAX:
        raise BadPattern(f"`{_shown(text)}` is not a name pattern: it needs 1 to {NAME_MAX} characters")
    fragments = [_checked_fragment(fragment, text) for fragment in text.split("*")]
    match fragments:
        case [name]:
            return NamePattern(name)
        case ["", ""]:
            return ANY_NAME
        case [prefix, suffix]:
            return NamePattern(None, prefix, suffix, len(prefix) + len(suffix))
        case ["", infix, ""] if infix:
            return NamePattern(None, infixes=(infix,))
    raise BadPattern(f"`{_shown(text)}` is not a name pattern: use a name, `p*`, `*s`, `p*s`, `*i*` or `*`")


def pattern_of_parts(texts: Iterable[str]) -> NamePattern:
    """Read a conjunction, written as `parts` writes it and in no other way."""
    texts = tuple(texts)
    if not 1 <= len(texts) <= INFIXES_MAX + 2:
        raise BadPattern(f"a name pattern has 1 to {INFIXES_MAX + 2} parts")
    first, *rest = map(parse_name_pattern, texts)
    pattern: NamePattern | None = first
    for part in rest:
        # A part alone says nothing about reserved names: `/admin/a*` and `*b` are one pattern of them.
        if pattern is None or pattern.exact is not None or part.exact is not None:
            pattern = None
            break
        pattern = _both(pattern, part)
    if pattern is None or pattern.parts() != texts:
        raise BadPattern(
            "the parts of a name pattern contradict or repeat each other, or are in the wrong order"
        )
    return pattern


def _both(one: NamePattern, other: NamePattern) -> NamePattern | None:
    if one is ANY_NAME:
        return other
    if other in (one, ANY_NAME):
        return one
    prefix = _longer_prefix(one.prefix, other.prefix)
    suffix = _longer_suffix(one.suffix, other.suffix)
    if prefix is None or suffix is None:
        return None
    infixes = _needed_infixes({*one.infixes, *other.infixes}, prefix, suffix)
    min_length = max(one.min_length, other.min_length)
    return NamePattern(None, prefix, suffix, min_length, infixes)


def _longer_prefix(one: str, other: str) -> str | None:
    if one.startswith(other):
        return one
    return other if other.startswith(one) else None


def _longer_suffix(one: str, other: str) -> str | None:
    if one.endswith(other):
        return one
    return other if other.endswith(one) else None


def _needed_infixes(infixes: set[str], prefix: str, suffix: str) -> tuple[str, ...]:
    """Drop every infix that another part of the pattern already implies, and sort the rest."""
    if not infixes:
        return ()
    needed = sorted(
        infix
        for infix in infixes
        if infix not in prefix
        and infix not in suffix
        and not any(infix in longer and infix != longer for longer in infixes)
    )
    if len(needed) > INFIXES_MAX:
        raise PatternTooComplex(f"more than {INFIXES_MAX} infixes would have to match at once")
    return tuple(needed)


def _ends(prefix: str, suffix: str, min_length: int) -> list[str]:
    """Write prefix, suffix and least length as at most two patterns of the written forms.

    The least length is never more than both lengths together: it is the
    length of the longest `p*s` among the patterns that were intersected.
    """
    from_suffix = min_length - len(prefix)
    if prefix and suffix and min_length > max(len(prefix), len(suffix)):
        first = f"{prefix}*{suffix[len(suffix) - from_suffix :]}"
        return [first] if from_suffix == len(suffix) else [first, f"*{suffix}"]
    return [*([f"{prefix}*"] if prefix else []), *([f"*{suffix}"] if suffix else [])]


def _checked_fragment(fragment: str, whole: str) -> str:
    if not _FRAGMENT.fullmatch(fragment):
        raise BadPattern(
            f"`{_shown(whole)}` is not a name pattern: `*` is the only wildcard, and the rest is letters, "
            f"digits and spaces of ASCII, and `_ - . /`"
        )
    if _NEVER.search(fragment):
        raise BadPattern(f"`{_shown(whole)}` is not a name pattern: no name has an empty segment")
    return fragment


TEXT_MAX: Final = 1024


def text_from_atom(expression: SExpression, length_max: int = TEXT_MAX) -> str:
    """Return a string as ASCII text; every text in a certificate but its comment is ASCII."""
    if not isinstance(expression, bytes) or not expression.isascii() or len(expression) > length_max:
        raise BadCertificate(f"plain ASCII text of at most {length_max} characters was expected")
    return expression.decode("ascii")


_ROUTING_DOMAIN: Final = b"maia/1/type-id\x00"


def type_id(owner: Owner, name: str) -> bytes:
    """Return the digest by which every version of a type is routed.

    The version is left out on purpose, so that all versions of a type share
    one rendezvous node (dissertation, section 4.4.3).
    """
    # The text form of an owner has one length per kind of owner, so no two pairs share these bytes.
    return sha256(_ROUTING_DOMAIN + f"{owner}\x00{name}".encode()).digest()
