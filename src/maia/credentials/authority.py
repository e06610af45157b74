"""What does a certificate grant?

An authority is one resource pattern, a set of actions, a set of attributes, a
restriction on their values, and a condition. Two of them always intersect to
one, exactly; a chain of certificates grants the intersection of all its
authorities, so a wider link further down is harmless (dissertation 5.1.3).

The restriction is kept apart from the attribute set on purpose. A link that
shows fewer attributes must not thereby drop a restriction on one it hides:
`{plate == "AE05 XYZ", time}` narrowed to `{time}` is still about one car.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from maia.credentials.name_patterns import NamePattern
from maia.credentials.principals import Owner
from maia.events import AttributeUid
from maia.predicates.syntax import ALWAYS, Predicate

__all__ = [
    "ALL_ATTRIBUTES",
    "ALL_ACTIONS",
    "Action",
    "AllAttributes",
    "AnyResource",
    "AttributeSet",
    "Authority",
    "NetworkPattern",
    "ResourcePattern",
    "TopicPattern",
    "TypePattern",
]


class Action(Enum):
    """What can be done with a network, a type or a topic."""

    CONNECT = "connect"
    INSTALL = "install"
    EXTEND = "extend"
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    MANAGE_ADD = "manage.add"
    MANAGE_REMOVE = "manage.remove"
    MANAGE_RENAME = "manage.rename"
    MANAGE_RETYPE = "manage.retype"


ALL_ACTIONS: Final = frozenset(Action)


class AllAttributes(Enum):
    """The set of every attribute, those of later versions included."""

    ALL = "*"


ALL_ATTRIBUTES: Final = AllAttributes.ALL

AttributeSet: TypeAlias = frozenset[AttributeUid] | AllAttributes


@dataclass(frozen=True, slots=True)
class AnyResource:
    """Every network, type and topic, of one owner or (None) of any: a blanket capability.

    What the system reserves (`is_reserved`) is not among them.
    """

    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class NetworkPattern:
    """Networks by owner (None: any owner) and name."""

    owner: Owner | None
    name: NamePattern


@dataclass(frozen=True, slots=True)
class TypePattern:
    """Event types by owner (None: any), name and version (None: any)."""

    owner: Owner | None
    name: NamePattern
    version: str | None


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """Topics by owner (None: any) and path."""

    owner: Owner | None
    path: NamePattern


ResourcePattern: TypeAlias = AnyResource | NetworkPattern | TypePattern | TopicPattern


@dataclass(frozen=True, slots=True)
class Authority:
    """One grant: these actions, on these resources, of these attributes, under these terms."""

    resources: ResourcePattern
    actions: frozenset[Action]
    attributes: AttributeSet = ALL_ATTRIBUTES
    restriction: Predicate = ALWAYS
    condition: Predicate = ALWAYS
