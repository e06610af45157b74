"""Which topic patterns does a path match?

The matching index asks for filters that are topic patterns and nothing else.
Patterns are kept in a tree of levels, in which a path is followed through its
own name and through `+` at each level. Where a path has come to at some level
is remembered, so that the next path with the same beginning goes on from
there: the cost of a question grows with the depth of the path, and not with
the number of patterns or topics. What is remembered is bounded, and holds the
places where keys are kept, not the keys: subscribers come and go without
touching it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from maia.events import AttributeUid
from maia.predicates.path_patterns import ONE, PathPattern, parse_path_pattern
from maia.predicates.syntax import AllOf, AnyOf, Predicate, TextMatch, TextTest

__all__ = ["FORGOTTEN_AFTER", "PATTERNS_MAX", "PLACES_MAX", "TopicIndex", "patterns_of"]

Key = TypeVar("Key", bound=Hashable)

PLACES_MAX: Final = 1 << 16
"""Beginnings of paths of which is remembered where they lead."""

PATTERNS_MAX: Final = 64
"""Patterns of one filter; one with more is matched as any other filter."""

FORGOTTEN_AFTER: Final = 4 * PLACES_MAX
"""When so many places were wanted that there was no room for, others are remembered in their stead."""


class _Node(Generic[Key]):
    """One level of some patterns: who asked for exactly this path, for all below, and the next levels."""

    __slots__ = ("below", "exact", "named", "one")

    def __init__(self) -> None:
        self.named: dict[str, _Node[Key]] = {}
        self.one: _Node[Key] | None = None
        self.exact: dict[Key, None] = {}
        self.below: dict[Key, None] = {}


class _Place(Generic[Key]):
    """Where the beginning of a path has come to: the nodes that it reached, and whom it matches."""

    __slots__ = ("ending", "moves", "nodes", "other", "passing")

    def __init__(self, nodes: tuple[_Node[Key], ...], above: tuple[dict[Key, None], ...]) -> None:
        self.nodes = nodes
        self.passing = above + tuple(node.below for node in nodes if node.below)
        """Those who asked for all below, here or above: they match however the path goes on."""
        self.ending = self.passing + tuple(node.exact for node in nodes if node.exact)
        self.moves: dict[str, _Place[Key]] = {}
        self.other: _Place[Key] | None = None
        """Where a level leads that no pattern names: all of these lead to one place."""


class TopicIndex(Generic[Key]):
    """Patterns by key; a key may stand for several."""

    __slots__ = ("_elsewhere", "_patterns", "_places", "_root", "_start")

    def __init__(self) -> None:
        """Begin without patterns."""
        self._patterns: dict[Key, tuple[PathPattern, ...]] = {}
        self._root: _Node[Key] = _Node()
        self._forget_places()

    def __contains__(self, key: Key) -> bool:
        return key in self._patterns

    def __len__(self) -> int:
        return len(self._patterns)

    def add(self, key: Key, patterns: tuple[PathPattern, ...]) -> None:
        """Let `key` stand for patterns; it stands for none yet."""
        self._patterns[key] = patterns
        for pattern in patterns:
            node = self._node(pattern)
            keys = node.below if pattern.has_rest else node.exact
            if not keys:
                self._forget_places()  # they have left this one out
            keys[key] = None

    def remove(self, key: Key) -> None:
        """Forget the patterns of a key; `KeyError` if it stands for none."""
        for pattern in self._patterns.pop(key):
            self._take_out(key, pattern)

    def match(self, path: str) -> set[Key]:
        """Return the keys of all patterns that mean `path`."""
        return set[Key]().union(*self.groups(path))

    def groups(self, path: str) -> tuple[Mapping[Key, None], ...]:
        """Return the same in groups that may overlap, none of them to be changed."""
        before, *levels = path.split("/")
        if before:
            return ()
        place = self._start
        for level in levels:
            if not place.nodes:
                break
            place = place.moves.get(level) or self._moved(place, level)
        # A path that goes on where no pattern does matches those who asked for all below.
        return place.ending

    def _moved(self, place: _Place[Key], level: str) -> _Place[Key]:
        named = [node.named[level] for node in place.nodes if level in node.named]
        if not named and level and place.other is not None:
            return place.other
        ones = [node.one for node in place.nodes if node.one is not None and level]
        moved = _Place((*named, *ones), place.passing)
        if self._places >= PLACES_MAX:
            self._elsewhere += 1
            if self._elsewhere > FORGOTTEN_AFTER:
                self._forget_places()
            return moved
        self._places += 1
        if not named and level:
            place.other = moved
        else:
            place.moves[level] = moved
        return moved

    def _node(self, pattern: PathPattern) -> _Node[Key]:
        """Return the node of a pattern's last level, made if there is none."""
        node = self._root
        for level in pattern.levels:
            following = node.one if level == ONE else node.named.get(level)
            if following is None:
                following = _Node()
                self._forget_places()
                if level == ONE:
                    node.one = following
                else:
                    node.named[level] = following
            node = following
        return node

    def _take_out(self, key: Key, pattern: PathPattern) -> None:
        """Take a key out of its node, and nodes out of the tree that lead nowhere any more."""
        way = [self._root]
        for level in pattern.levels:
            following = way[-1].one if level == ONE else way[-1].named[level]
            assert following is not None  # noqa: S101 - the pattern was put in
            way.append(following)
        keys = way[-1].below if pattern.has_rest else way[-1].exact
        keys.pop(key, None)
        for node, level in zip(reversed(way[:-1]), reversed(pattern.levels), strict=True):
            last = node.one if level == ONE else node.named[level]
            assert last is not None  # noqa: S101 - it is on the way
            if last.exact or last.below or last.named or last.one is not None:
                return
            if level == ONE:
                node.one = None
            else:
                del node.named[level]
            # Places that still hold the empty node find nothing in it; a new one makes them forgotten.

    def _forget_places(self) -> None:
        self._start: _Place[Key] = _Place((self._root,), ())
        self._places = self._elsewhere = 0


def patterns_of(predicate: Predicate) -> tuple[AttributeUid, tuple[PathPattern, ...]] | None:
    """Return the patterns of which an event has to match one, if a filter asks for nothing else."""
    found = _patterns_of(predicate)
    return None if found is None else (found[0], tuple(dict.fromkeys(found[1])))


def _patterns_of(predicate: Predicate) -> tuple[AttributeUid, list[PathPattern]] | None:
    match predicate:
        case TextMatch(uid, TextTest.LEVELS, text):
            return uid, [parse_path_pattern(text)]
        case AllOf(parts) | AnyOf(parts) if 0 < len(parts) <= PATTERNS_MAX:
            inside = [_patterns_of(part) for part in parts]
            first = inside[0]
            if first is None:
                return None
            uid, joined = first
            for other in inside[1:]:
                if other is None or other[0] != uid:
                    return None
                joined = joined + other[1] if isinstance(predicate, AnyOf) else _both(joined, other[1])
                if len(joined) > PATTERNS_MAX:
                    return None
            return uid, joined
        case _:
            return None


def _both(some: list[PathPattern], others: list[PathPattern]) -> list[PathPattern]:
    return list(dict.fromkeys(_intersections(some, others)))


def _intersections(some: list[PathPattern], others: list[PathPattern]) -> Iterator[PathPattern]:
    for one in some:
        for other in others:
            if (both := one.intersection(other)) is not None:
                yield both
