"""Which topic patterns does a path match?

The matching index asks for filters that are topic patterns and nothing else.
Two patterns have the same *shape* if their wildcards stand at the same levels.
A path matches a pattern of a shape exactly if, with `+` written where the
shape has it, the two are the same text. So one look into a dictionary for each
shape answers for all patterns; there are few shapes, however many patterns and
topics there are. For a frame, sums of numbers that stand for names at levels
first rule out, by column, nearly all looks that would find nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, product, repeat
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from maia.events import AttributeUid, Value
from maia.predicates.path_patterns import LEVELS_MAX, ONE, PathPattern, parse_path_pattern
from maia.predicates.syntax import AllOf, AnyOf, Predicate, TextMatch, TextTest

__all__ = ["PATTERNS_MAX", "SHAPES_MAX", "TopicIndex", "patterns_of"]

Key = TypeVar("Key", bound=Hashable)
_Texts: TypeAlias = dict[str, dict[Key, None]]
"""The keys of each pattern of one shape, by its text."""

SHAPES_MAX: Final = 64
"""Shapes that are asked about; a pattern of one more is matched as any other filter."""

PATTERNS_MAX: Final = 64
"""Patterns of one filter; one with more is matched as any other filter."""

_FEW_PATHS: Final = 8
"""Up to this many different paths of one depth are looked up one by one, which starts faster."""

_MARKS_PER_PATTERN: Final = 16
_MARKS_MIN: Final = 1 << 12
_STALE_MIN: Final = 1024


class _Shape(NamedTuple):
    """How a pattern is split at `/`: in how many parts, which of them are `+`, and whether more may follow.

    The first part is what is before the first `/`, which is nothing.
    """

    parts: int
    ones: tuple[int, ...]
    has_rest: bool

    def counts(self, place: int) -> bool:
        """Say whether the name at a place has to be that of the pattern."""
        return place < self.parts and place not in self.ones

    def fits(self, parts: int) -> bool:
        """Say whether a path of so many parts can match a pattern of this shape."""
        return self.parts == parts or (self.has_rest and self.parts < parts)


class TopicIndex(Generic[Key]):
    """Patterns by key; a key may stand for several."""

    __slots__ = ("_codes", "_count", "_marks", "_patterns", "_shapes", "_stale")

    def __init__(self) -> None:
        """Begin without patterns."""
        self._patterns: dict[Key, tuple[PathPattern, ...]] = {}
        self._shapes: dict[_Shape, _Texts[Key]] = {}
        """The keys of each pattern, by its text, of each shape."""
        self._count = 0
        """How many different patterns there are."""
        self._codes: list[dict[str, int]]
        self._marks: npt.NDArray[np.bool_]
        self._mark_anew()

    def __contains__(self, key: Key) -> bool:
        return key in self._patterns

    def __len__(self) -> int:
        return len(self._patterns)

    def add(self, key: Key, patterns: tuple[PathPattern, ...]) -> bool:
        """Let `key`, which stands for none yet, stand for patterns; say no to more shapes than are taken."""
        if len(self._shapes.keys() | set(map(_shape_of, patterns))) > SHAPES_MAX:
            return False
        self._patterns[key] = patterns
        for pattern in patterns:
            shape, text = _shape_of(pattern), _text_of(pattern)
            keys = self._shapes.setdefault(shape, {}).setdefault(text, {})
            if not keys:
                self._count += 1
                if self._count * _MARKS_PER_PATTERN > len(self._marks):
                    self._mark_anew()
                self._mark(shape, text)
            keys[key] = None
        return True

    def remove(self, key: Key) -> None:
        """Forget the patterns of a key; `KeyError` if it stands for none."""
        for pattern in self._patterns.pop(key):
            shape, text = _shape_of(pattern), _text_of(pattern)
            texts = self._shapes[shape]
            del texts[text][key]
            if texts[text]:
                continue
            del texts[text]
            if not texts:
                del self._shapes[shape]
            self._count -= 1
            self._stale += 1
        if self._stale > self._count + _STALE_MIN:
            self._mark_anew()

    def match(self, path: str) -> set[Key]:
        """Return the keys of all patterns that mean `path`."""
        parts = path.split("/")
        found: set[Key] = set()
        for shape, texts in self._shapes.items():
            if shape.fits(len(parts)):
                found.update(_looked_up(texts, shape, parts))
        return found

    def match_column(self, paths: Sequence[Value]) -> dict[Key, list[int]]:
        """Return the rows of a column that each key's patterns mean, in order; no key without any."""
        rows_of: dict[Value, list[int]] = {}
        for row, path in enumerate(paths):
            if path in rows_of:
                rows_of[path].append(row)
            else:
                rows_of[path] = [row]
        rows_of.pop(None, None)
        split = [str(path).split("/") for path in rows_of]
        rows_at = list(rows_of.values())
        found: dict[Key, list[int]] = {}
        for size in set(map(len, split)):
            places = [place for place, parts in enumerate(split) if len(parts) == size]
            for (shape, texts), place in self._candidates(size, split, places):
                for key in _looked_up(texts, shape, split[place]):
                    if key in found:
                        found[key].extend(rows_at[place])
                    else:
                        found[key] = rows_at[place].copy()
        # A key whose patterns overlap has a row twice, and shapes were asked in turn.
        return {key: rows if len(rows) == 1 else sorted(set(rows)) for key, rows in found.items()}

    # ------------------------------------------------------------ by column

    def _candidates(
        self, size: int, split: list[list[str]], places: list[int]
    ) -> Iterable[tuple[tuple[_Shape, _Texts[Key]], int]]:
        """Return which of some paths, those of one size, may match a pattern of which shape."""
        shapes = [one for one in self._shapes.items() if one[0].fits(size)]
        if len(places) <= _FEW_PATHS or not shapes:
            return product(shapes, places)
        some = split if len(places) == len(split) else [split[place] for place in places]
        names = zip(self._codes, zip(*some, strict=True), strict=False)
        columns = [map(codes.get, column, repeat(0)) for codes, column in names]
        count = len(columns) * len(some)
        codes = np.fromiter(chain.from_iterable(columns), np.int64, count).reshape(len(columns), len(some))
        every = range(len(columns))
        counted = np.array([[shape.counts(place) for place in every] for shape, _ in shapes], np.int64)
        begins = np.array([[hash(shape)] for shape, _ in shapes], np.int64)
        marked = self._marks[(counted @ codes + begins) & (len(self._marks) - 1)]
        which, where = np.nonzero(marked)
        return [
            (shapes[one], places[place]) for one, place in zip(which.tolist(), where.tolist(), strict=True)
        ]

    def _mark(self, shape: _Shape, text: str) -> None:
        """Leave a mark where the sum of a pattern's names leads."""
        total = hash(shape)
        for place, name in enumerate(text.split("/")):
            if name != ONE:
                # Chosen by the process, so that nobody can prepare names that lead to one place.
                total += self._codes[place].setdefault(name, hash(f"{place}/{name}"))
        self._marks[total & (len(self._marks) - 1)] = True

    def _mark_anew(self) -> None:
        """Make room for twice as many marks as are needed, without those of patterns that are gone."""
        size = _MARKS_MIN
        while size < 2 * _MARKS_PER_PATTERN * self._count:
            size *= 2
        self._marks = np.zeros(size, np.bool_)
        self._codes = [{} for _ in range(LEVELS_MAX + 1)]
        self._stale = 0
        for shape, texts in self._shapes.items():
            for text in texts:
                self._mark(shape, text)


def _shape_of(pattern: PathPattern) -> _Shape:
    ones = tuple(place for place, level in enumerate(pattern.levels, 1) if level == ONE)
    return _Shape(len(pattern.levels) + 1, ones, pattern.has_rest)


def _text_of(pattern: PathPattern) -> str:
    return "/" + "/".join(pattern.levels)


def _looked_up(texts: _Texts[Key], shape: _Shape, parts: list[str]) -> dict[Key, None] | tuple[()]:
    """Return the keys of the one pattern of a shape that a path can match."""
    asked = parts[: shape.parts]
    for place in shape.ones:
        if not asked[place]:
            return ()  # an empty level is no level
        asked[place] = ONE
    return texts.get("/".join(asked), ())


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
