"""What is an attribute called, by people and by machines?

People use names, which may change from one version of a type to the next.
Capabilities, keys, routing, logs and tables use uids, which never change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NewType, TypeAlias

from maia.errors import BadInput
from maia.events.kinds import Kind

__all__ = [
    "ATTRIBUTES_MAX",
    "Attribute",
    "AttributeUid",
    "BadAttribute",
    "Vocabulary",
    "attribute_uid",
    "vocabulary_of",
]

AttributeUid = NewType("AttributeUid", str)

ATTRIBUTES_MAX: Final = 1024

# Lower case only: Spark folds the case of column names, and a uid is a column name there.
_UID: Final = re.compile(r"[0-9a-z](?:[0-9a-z-]{0,61}[0-9a-z])?", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}", re.ASCII)
_RESERVED: Final = frozenset(
    ("and", "or", "not", "in", "exists", "true", "false", "null", "prefix", "suffix", "contains", "token")
)


class BadAttribute(BadInput):
    """An attribute's name or uid cannot be used."""

    code = "INPUT-ATTRIBUTE"


def attribute_uid(text: str) -> AttributeUid:
    """Return `text` as a uid: 1 to 63 of `0-9 a-z -`, neither starting nor ending with `-`."""
    if not _UID.fullmatch(text):
        raise BadAttribute(
            f"`{_shown(text)}` is not an attribute uid: use digits, lower case letters and inner hyphens"
        )
    return AttributeUid(text)


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a type version: what people call it, what it is, and its kind."""

    name: str
    uid: AttributeUid
    kind: Kind

    def __post_init__(self) -> None:
        """Refuse names that a filter, a column or a reader could take for something else."""
        attribute_uid(self.uid)
        if not _NAME.fullmatch(self.name) or self.name.lower() in _RESERVED:
            raise BadAttribute(
                f"`{_shown(self.name)}` is not an attribute name: use letters, digits, `_` and `-`, "
                "and no word of the filter language"
            )


Vocabulary: TypeAlias = Mapping[str, Attribute]
"""The attributes that a text may name."""


def vocabulary_of(attributes: Iterable[Attribute]) -> dict[str, Attribute]:
    """Index attributes by name; refuse two that share a uid or differ only in case."""
    by_name: dict[str, Attribute] = {}
    folded: set[str] = set()
    uids: set[AttributeUid] = set()
    for attribute in attributes:
        if attribute.name.lower() in folded:
            raise BadAttribute(f"two attributes are called `{attribute.name}` (case does not count)")
        if attribute.uid in uids:
            raise BadAttribute(f"two attributes have the uid `{attribute.uid}`")
        if len(by_name) >= ATTRIBUTES_MAX:
            raise BadAttribute(f"a type has at most {ATTRIBUTES_MAX} attributes")
        folded.add(attribute.name.lower())
        uids.add(attribute.uid)
        by_name[attribute.name] = attribute
    return by_name


def _shown(text: str) -> str:
    return text[:64].encode("unicode_escape").decode()
