"""Which topic patterns does a path match?

The matching index asks for filters that are topic patterns and nothing else.
Two patterns have the same *shape* if their wildcards are at the same levels. A
path can match one pattern of a shape only: the one with its own names at the
levels without a wildcard. A weighted sum over these names leads to it in a
hash table. So a path costs one look for each shape; there are few shapes,
however many patterns and topics there are. For a frame, NumPy does this for
all paths at once, from the bytes of the names. What is found is compared name
by name, so that different names with equal sums deliver nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, KeysView, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from maia.events import AttributeUid, Value
from maia.predicates.path_patterns import LEVELS_MAX, ONE, PATH_MAX, PathPattern, parse_path_pattern
from maia.predicates.syntax import AllOf, AnyOf, Predicate, TextMatch, TextTest

Key = TypeVar("Key", bound=Hashable)
_Words = npt.NDArray[np.uint64]
_Marks = npt.NDArray[np.uint32]
_Places = npt.NDArray[np.int64]

SHAPES_MAX: Final = 64
"""Shapes that are asked about; a pattern of one more is matched as any other filter."""

PATTERNS_MAX: Final = 64
"""Patterns of one filter; one with more is matched as any other filter."""

_FEW_PATHS: Final = 8
"""Up to this many paths are looked up one by one, which starts faster."""

_LOOKED_AT: Final = 32
"""If most of the first so many paths of a column are different, so are the others, as a rule."""

_SLOTS: Final = 16
"""Sums in one bucket of the hash table; when one more comes, the table becomes twice as large."""
_BUCKETS_MIN: Final = 16

# ------------------------------------------------------------ names as numbers

_WORD_BYTES: Final = 8
_WORD: Final = (1 << 64) - 1
_LONG: Final = 0xFF << 56
"""No text has this byte: the number of a longer name is that of no short one."""
_FOREIGN: Final = 0xFE << 56
"""The same of a name that is too long for any pattern."""


def _weight(of: str) -> int:
    """Return an odd number, chosen by the process: an attacker cannot prepare names with equal sums."""
    return (hash(f"topic {of}") | 1) & _WORD


_SPREAD: Final = _weight("spread")
_WEIGHTS: Final = [_weight(f"part {number}") for number in range(LEVELS_MAX + 1)]
_LONGER: Final = [_weight(f"word {number}") for number in range(PATH_MAX // _WORD_BYTES + 1)]
_MASKS: Final[_Words] = np.array([(1 << 8 * size) - 1 for size in range(_WORD_BYTES + 1)], np.uint64)


@lru_cache(maxsize=1 << 16)
def _number(name: str) -> int:
    """Return the number of a name: another one for every name of up to eight bytes, and 0 for none."""
    data = name.encode(errors="surrogatepass")
    words = [int.from_bytes(data[at : at + _WORD_BYTES], "little") for at in range(0, len(data), _WORD_BYTES)]
    word = words[0] if words else 0
    if len(data) > PATH_MAX:
        word = _FOREIGN
    elif len(words) > 1:
        folded = sum(one * weight for one, weight in zip(words, _LONGER, strict=False)) & _WORD
        word = _LONG | folded >> 8
    word = (word ^ word >> 32) * _SPREAD & _WORD
    return word ^ word >> 29


def _numbers(text: bytes, starts: _Places, sizes: _Places) -> _Words:
    """Return the numbers of many names in a text, as `_number` does; some bytes follow the last of them."""
    # Eight bytes from every place on, where a name may begin.
    words = np.ndarray((len(text) - _WORD_BYTES + 1,), "<u8", text, strides=(1,))
    found: _Words = words.take(starts) & _MASKS.take(sizes, mode="clip")
    is_long = sizes > _WORD_BYTES
    if is_long.any():
        found[is_long] = _folded(words, starts[is_long], sizes[is_long])
    found = (found ^ (found >> np.uint64(32))) * np.uint64(_SPREAD)
    return found ^ (found >> np.uint64(29))


def _folded(words: _Words, starts: _Places, sizes: _Places) -> _Words:
    total = np.zeros(len(starts), np.uint64)
    for number, weight in enumerate(_LONGER):
        left = np.clip(sizes - number * _WORD_BYTES, 0, _WORD_BYTES)
        if not left.any():
            break
        at = np.minimum(starts + number * _WORD_BYTES, len(words) - 1)
        total += (words[at] & _MASKS[left]) * np.uint64(weight)
    folded = np.uint64(_LONG) | total >> np.uint64(8)
    return np.where(sizes > PATH_MAX, np.uint64(_FOREIGN), folded)


# ------------------------------------------------------------ shapes


class _Shape(NamedTuple):
    """How a pattern is split at `/`: in how many parts, which of them are `+`, and whether more may follow.

    The first part is what is before the first `/`, which is nothing.
    """

    parts: int
    ones: tuple[int, ...]
    has_rest: bool

    def begin(self) -> int:
        """Return what the sums of this shape begin with."""
        return hash(self) & _WORD


def _shape_of(pattern: PathPattern) -> _Shape:
    ones = tuple([place for place, level in enumerate(pattern.levels, 1) if level == ONE])
    return _Shape(len(pattern.levels) + 1, ones, pattern.has_rest)


class _Asked(NamedTuple):
    """How one path is asked about one shape."""

    shape: _Shape
    begin: int
    named: tuple[int, ...]
    """The parts that have to be those of the pattern."""


@dataclass(frozen=True, slots=True)
class _Shapes:
    """How one path is asked about all shapes, and how a frame is, by shape and part."""

    asked: tuple[_Asked, ...]
    serials: _Words
    parts: _Places
    parts_before_rest: _Places
    """As `parts`; of shapes without a rest, more than any path has."""
    begins: _Words
    weights: _Words
    """By part and shape: 0 where the name does not count."""
    is_named: npt.NDArray[np.bool_]
    is_one: npt.NDArray[np.bool_]


def _asked_about(serials: dict[_Shape, int]) -> _Shapes:
    shapes = tuple(serials)
    width = max(shape.parts for shape in shapes)
    parts = np.array([shape.parts for shape in shapes], np.int64)
    is_one = np.array([[place in shape.ones for place in range(width)] for shape in shapes], np.bool_)
    is_named = (np.arange(width) < parts[:, None]) & ~is_one
    named = [tuple(np.flatnonzero(row).tolist()) for row in is_named]
    without = np.iinfo(np.int64).max
    return _Shapes(
        tuple(_Asked(shape, shape.begin(), some) for shape, some in zip(shapes, named, strict=True)),
        np.array(list(serials.values()), np.uint64),
        parts,
        np.array([shape.parts if shape.has_rest else without for shape in shapes], np.int64),
        np.array([shape.begin() for shape in shapes], np.uint64),
        np.where(is_named.T, np.array(_WEIGHTS[:width], np.uint64)[:, None], np.uint64(0)),
        is_named,
        is_one,
    )


# ------------------------------------------------------------ the index


class TopicIndex(Generic[Key]):
    """Patterns by key; a key may stand for several."""

    def __init__(self) -> None:
        """Begin without patterns."""
        self._begin()

    def _begin(self) -> None:
        self._patterns: dict[Key, tuple[PathPattern, ...]] = {}
        self._serials: dict[_Shape, int] = {}
        """A number for each shape."""
        self._shape_counts: dict[_Shape, int] = {}
        self._shapes: _Shapes | None = None
        # Every pattern has a place. What is known of it is found there.
        self._place_of: dict[int, int] = {}
        """By sum."""
        self._pattern_at: list[PathPattern] = []
        self._keys: list[Key | dict[Key, None]] = []
        """One key as it is, which spares a look at another place in memory; or several, or none."""
        self._rows: _Words = np.zeros((_BUCKETS_MIN, 1), np.uint64)
        """First twice its shape's number, and one more if others may have the number of a long name of it;
        then the numbers of its names, by part, 0 for `+`. Together, so that one look finds all of them."""
        self._free: list[int] = []
        # The hash table: marks of sums by their upper bits, and the place of each.
        self._buckets: _Marks = np.zeros((_BUCKETS_MIN, _SLOTS), np.uint32)
        self._where = np.zeros((_BUCKETS_MIN, _SLOTS), np.int32)

    def __contains__(self, key: Key) -> bool:
        return key in self._patterns

    def __len__(self) -> int:
        return len(self._patterns)

    def add(self, key: Key, patterns: tuple[PathPattern, ...]) -> bool:
        """Let `key`, which stands for none yet, stand for patterns; say no to what the index cannot take.

        That is one shape more than are asked about, and a pattern with the same sum as another.
        """
        if len(self._serials.keys() | set(map(_shape_of, patterns))) > SHAPES_MAX:
            return False
        sums = {self._sum_of(pattern): pattern for pattern in patterns}
        if len(sums) < len(set(patterns)):
            return False
        others = [
            (self._place_of[total], pattern) for total, pattern in sums.items() if total in self._place_of
        ]
        if any(self._pattern_at[place] != pattern for place, pattern in others):
            return False
        self._patterns[key] = patterns
        for total, pattern in sums.items():
            if total not in self._place_of:
                self._insert(pattern, total)
            place = self._place_of[total]
            held = self._keys[place]
            if not isinstance(held, dict):
                self._keys[place] = {held: None, key: None}
            elif held:
                held[key] = None
            else:
                self._keys[place] = key
        return True

    def remove(self, key: Key) -> None:
        """Forget the patterns of a key; `KeyError` if it stands for none."""
        for pattern in dict.fromkeys(self._patterns.pop(key)):
            total = self._sum_of(pattern)
            place = self._place_of[total]
            held = self._keys[place]
            if isinstance(held, dict):
                del held[key]
                if len(held) == 1:
                    (self._keys[place],) = held
            else:
                self._keys[place] = {}
                self._take_out(pattern, total)
        if not self._patterns:
            self._begin()

    def match(self, path: str) -> KeysView[Key]:
        """Return the keys of all patterns that mean `path`, in the same order in every process."""
        parts = path.split("/")
        size = len(parts)
        weighted = [number * weight for number, weight in zip(map(_number, parts), _WEIGHTS, strict=False)]
        found: dict[Key, None] = {}
        for shape, begin, named in self._asked().asked if self._serials else ():
            if shape.parts == size or (shape.has_rest and shape.parts < size):
                total = begin + sum([weighted[place] for place in named])
                place = self._place_of.get(total & _WORD)
                if place is not None and self._pattern_at[place].matches(path):
                    held = self._keys[place]
                    found.update(held if isinstance(held, dict) else {held: None})
        return found.keys()

    def match_column(self, paths: Sequence[Value]) -> dict[Key, list[int]]:
        """Return the rows of a column that each key's patterns mean, in order; no key without any."""
        first = paths[:_LOOKED_AT]
        if None not in paths and 2 * len(set(first)) > len(first):
            return self._match_each(cast("Sequence[str]", paths))
        rows_of: dict[str, list[int]] = {}
        for row, path in enumerate(paths):
            if path is not None:
                rows_of.setdefault(str(path), []).append(row)
        rows_at = list(rows_of.values())
        found = self._match_each(list(rows_of))
        return {key: sorted(row for at in places for row in rows_at[at]) for key, places in found.items()}

    # ------------------------------------------------------------ by column

    def _match_each(self, paths: Sequence[str]) -> dict[Key, list[int]]:
        """Return which of some paths each key's patterns mean, in order."""
        found: dict[Key, list[int]] = {}
        text = "\0".join(paths)
        if len(paths) <= _FEW_PATHS or not self._serials or text.count("\0") >= len(paths):
            for at, path in enumerate(paths):
                for key in self.match(path):
                    found.setdefault(key, []).append(at)
            return found
        for at, held in self._found_in(paths, text):
            if not isinstance(held, dict) and held not in found:
                found[held] = [at]
                continue
            for key in held if isinstance(held, dict) else (held,):
                rows = found.setdefault(key, [])
                if not rows or rows[-1] != at:  # two of its patterns may mean one path
                    rows.append(at)
        return found

    def _found_in(self, paths: Sequence[str], text: str) -> Iterator[tuple[int, Key | dict[Key, None]]]:
        """Return pairs of a path and of the key or keys of a pattern that means it, in the order of paths.

        `text` is all paths, with U+0000 between them.
        """
        shapes = self._asked()
        seen, sizes = _split(text.encode(errors="surrogatepass"), len(paths), width=len(shapes.weights))
        totals = seen @ shapes.weights + shapes.begins
        fits = (sizes == shapes.parts) | (sizes >= shapes.parts_before_rest)
        sums = totals[fits]
        buckets = self._buckets.take((sums >> self._shift()).view(np.int64), axis=0)
        slots = np.flatnonzero((buckets == _marks(sums)[:, None]).ravel())
        looked_up = slots // _SLOTS
        places = self._where[(sums[looked_up] >> self._shift()).view(np.int64), slots % _SLOTS]
        which, shape = (some[looked_up] for some in np.nonzero(fits))
        # Equal marks: now the names, which are equal if their numbers are and they have up to eight bytes.
        rows, names = self._rows.take(places, axis=0), seen.take(which, axis=0)
        differs = (rows[:, 1 : names.shape[1]] != names[:, 1:]) & shapes.is_named[shape, 1:]
        is_empty = (names[:, 1:] == 0) & shapes.is_one[shape, 1:]
        is_meant = (rows[:, 0] >> np.uint64(1) == shapes.serials[shape]) & (names[:, 0] == 0)
        is_meant &= ~(differs | is_empty).any(axis=1)
        at_paths, at_places = which[is_meant].tolist(), places[is_meant].tolist()
        found = zip(at_paths, map(self._keys.__getitem__, at_places), strict=True)
        if not (rows[:, 0] & np.uint64(1)).any():
            return found
        return (
            one
            for one, place in zip(found, at_places, strict=True)
            if self._pattern_at[place].matches(paths[one[0]])
        )

    def _asked(self) -> _Shapes:
        if self._shapes is None:
            self._shapes = _asked_about(self._serials)
        return self._shapes

    # ------------------------------------------------------------ patterns

    def _sum_of(self, pattern: PathPattern) -> int:
        total = _shape_of(pattern).begin()
        for weight, level in zip(_WEIGHTS[1:], pattern.levels, strict=False):
            if level != ONE:
                total += weight * _number(level)
        return total & _WORD

    def _insert(self, pattern: PathPattern, total: int) -> None:
        shape = _shape_of(pattern)
        if shape not in self._serials:
            taken = set(self._serials.values())
            self._serials[shape] = next(serial for serial in range(SHAPES_MAX) if serial not in taken)
            self._shape_counts[shape], self._shapes = 0, None
        self._shape_counts[shape] += 1
        if self._free:
            place = self._free.pop()
            self._pattern_at[place] = pattern
        else:
            place = len(self._pattern_at)
            self._pattern_at.append(pattern)
            self._keys.append({})
        self._make_room(place, shape.parts)
        is_long = any(len(level) > _WORD_BYTES for level in pattern.levels)
        names = [0 if level == ONE else _number(level) for level in pattern.levels]
        self._rows[place, : shape.parts] = [2 * self._serials[shape] + is_long, *names]
        self._place_of[total] = place
        bucket = total >> int(self._shift())
        free = np.flatnonzero(self._buckets[bucket] == 0)
        if len(free):
            self._buckets[bucket, free[0]] = _marks(np.array([total], np.uint64))[0]
            self._where[bucket, free[0]] = place
        else:
            self._spread_out(2 * len(self._buckets))

    def _make_room(self, place: int, parts: int) -> None:
        """Let there be a row for a place, with so many parts."""
        long, wide = self._rows.shape
        if place == long or parts > wide:
            rows = np.zeros((2 * long if place == long else long, max(parts, wide)), np.uint64)
            rows[:long, :wide] = self._rows
            self._rows = rows

    def _spread_out(self, count: int) -> None:
        """Make the hash table of so many buckets, or of twice as many until there is room in each."""
        sums = np.array(list(self._place_of), np.uint64)
        places = np.array(list(self._place_of.values()), np.int32)
        order = np.argsort(sums)
        sums, places = sums[order], places[order]
        while True:
            shift = np.uint64(65 - count.bit_length())
            buckets = (sums >> shift).view(np.int64)
            slots = np.arange(len(sums)) - np.searchsorted(buckets, buckets)
            if slots.max() < _SLOTS:
                break
            count *= 2
        self._buckets = np.zeros((count, _SLOTS), np.uint32)
        self._where = np.zeros((count, _SLOTS), np.int32)
        self._buckets[buckets, slots], self._where[buckets, slots] = _marks(sums), places

    def _take_out(self, pattern: PathPattern, total: int) -> None:
        place = self._place_of.pop(total)
        self._free.append(place)
        bucket = total >> int(self._shift())
        self._buckets[bucket, self._where[bucket] == place] = 0
        shape = _shape_of(pattern)
        self._shape_counts[shape] -= 1
        if not self._shape_counts[shape]:
            del self._shape_counts[shape], self._serials[shape]
            self._shapes = None

    def _shift(self) -> np.uint64:
        """Return how far the upper bits of a sum, which lead to its bucket, are from the lowest place."""
        return np.uint64(65 - len(self._buckets).bit_length())


def _marks(sums: _Words) -> _Marks:
    """Return the upper halves of sums, which depend on all of their names, and never 0."""
    return (sums >> np.uint64(32)).astype(np.uint32) | np.uint32(1)


def _split(text: bytes, count: int, *, width: int) -> tuple[_Words, _Places]:
    """Return the numbers of names, by path and part, and how many parts each path has.

    Zeros are between the paths; parts behind the first `width` are left out.
    """
    text += bytes(_WORD_BYTES)  # the end of the last path, and room to read words behind it
    letters = np.frombuffer(text, np.uint8)[: 1 - _WORD_BYTES]
    ends = np.flatnonzero((letters == ord("/")) | (letters == 0))
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1] + 1
    numbers = _numbers(text, starts, ends - starts)
    after = np.flatnonzero(letters.take(ends) == 0) + 1
    sizes = after.copy()
    sizes[1:] -= after[:-1]
    seen = np.zeros((count, width), np.uint64)
    size = int(sizes[0])
    if size * count == len(numbers) and (sizes == size).all():
        seen[:, :size] = numbers.reshape(count, size)[:, :width]
    else:
        rows, columns = (
            np.repeat(np.arange(count), sizes),
            np.arange(len(numbers)) - np.repeat(after - sizes, sizes),
        )
        is_asked = columns < width
        seen[rows[is_asked], columns[is_asked]] = numbers[is_asked]
    return seen, sizes[:, None]


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
                if isinstance(predicate, AnyOf):
                    joined = joined + other[1]
                else:
                    both = (one.intersection(two) for one in joined for two in other[1])
                    joined = [one for one in dict.fromkeys(both) if one is not None]
                if len(joined) > PATTERNS_MAX:
                    return None
            return uid, joined
        case _:
            return None
