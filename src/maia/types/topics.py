"""How is a tree of topics declared, so that an event on a topic is an event of a type?

The owner of the topics below `/news` signs one declaration: the definition of
the type `topic.news`, whose attribute `topic` holds the path that an event was
published on. Everything else follows from that. All topics of a tree meet at
one rendezvous node, are covered, sealed, recorded and governed as one type,
and a right to some of them is a restriction on `topic` (docs/decisions/topics.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maia.credentials.keys import Owner
from maia.credentials.names import FIRST_VERSION, BadName, TypeName, Version, checked_topic_path, is_reserved
from maia.events import Attribute, AttributeUid, Kind
from maia.predicates.path_patterns import LEVELS_MAX, ONE, PathPattern, parse_path_pattern
from maia.predicates.syntax import AnyOf, Predicate, TextMatch, TextTest

TOPIC: Final = Attribute("topic", AttributeUid("topic"), Kind.STRING)
"""The path that an event was published on; every declaration of topics has it, and first."""

PAYLOAD: Final = Attribute("payload", AttributeUid("payload"), Kind.BYTES)
CONTENT_TYPE: Final = Attribute("content_type", AttributeUid("content-type"), Kind.STRING)

_TREE: Final = "topic."


def tree_name(owner: Owner, path: str, version: Version = FIRST_VERSION) -> TypeName:
    """Return the type on which events of the tree around `path` travel: `topic.news` for `/news/uk`."""
    return TypeName(owner, tree_label(parse_path_pattern(path)), version)


def tree_label(pattern: PathPattern) -> str:
    """Return the readable name of the tree in which all topics of a pattern lie; one pattern, one tree."""
    if pattern.levels[0] == ONE:
        raise BadName(f"`{pattern}` speaks of several trees of topics: name one, such as `/news`")
    name = _TREE + pattern.levels[0]
    tree_root(name)
    return name


def tree_root(name: str) -> str | None:
    """Return `/news` for the readable name `topic.news`, and None for a type that is no tree of topics."""
    if not name.startswith(_TREE):
        return None
    root = "/" + name.removeprefix(_TREE)
    if is_reserved(f"{root}/"):
        raise BadName(f"`{root}` is reserved: its topics are how a domain is administered")
    return checked_topic_path(root)  # a second dot is no part of a level


def topic_attributes(attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
    """Return the attributes of a declaration of topics whose events have these."""
    return (TOPIC, *(one for one in attributes if one != TOPIC))


def plain_attributes(texts: Iterable[Attribute] = ()) -> tuple[Attribute, ...]:
    """Return the attributes of plain topics: some bytes, what they are, and texts of the owner's choice."""
    texts = tuple(texts)
    for one in texts:
        if one.kind is not Kind.STRING:
            raise BadName(f"attribute `{one.name}` of a plain topic is a text, and not {one.kind.value}")
    return (TOPIC, PAYLOAD, CONTENT_TYPE, *texts)


def checked_topic(path: str, root: str) -> str:
    """Return `path` as a topic of the tree `root` on which an event can be published."""
    if checked_topic_path(path).count("/") > LEVELS_MAX:
        raise BadName(f"a topic has at most {LEVELS_MAX} levels")
    if not PathPattern((root[1:],), has_rest=True).matches(path):
        raise BadName(f"`{path}` is no topic of `{root}`")
    return path


def is_topic(path: object, root: str) -> bool:
    """Say whether a value is such a path."""
    try:
        return isinstance(path, str) and checked_topic(path, root) == path
    except BadName:
        return False


def on_topics(patterns: Iterable[PathPattern]) -> Predicate:
    """Return the filter, or the restriction, of the topics that at least one of some patterns means."""
    atoms = tuple(TextMatch(TOPIC.uid, TextTest.LEVELS, str(pattern)) for pattern in patterns)
    return atoms[0] if len(atoms) == 1 else AnyOf(atoms)


def check_declaration(name: str, attributes: tuple[Attribute, ...]) -> str | None:
    """Say what keeps a definition from declaring topics, if its name says that it does."""
    if tree_root(name) is None or attributes[:1] == (TOPIC,):
        return None
    return f"`{name}` declares topics: its first attribute is `topic:string` with the uid `topic`"
