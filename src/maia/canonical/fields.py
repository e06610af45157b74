"""How is a value written as an S-expression and read back, from one declaration of its fields?

A `Part` is how one kind of value is written, and how it is read: strictly, so that nothing but what is
written is understood. Larger parts are declared from smaller ones:

    TEST = record(b"online", OnlineTest, WRONG, kind=bare(KIND), by=one(KEY), locations=rest(PLACES))

means `(online KIND (by KEY) PLACE …)`, as an `OnlineTest`. A field is called as the attribute it is for,
with hyphens, and the order of the declaration is that of the bytes:

    one(KEY)            (by KEY)
    many(PARAMETERS)    (parameters PARAMETER …)    what is inside is declared as several items
    bare(KEY)           KEY                         without a name
    rest(PLACES)        PLACE …                     all that follows
    run(PLACES, b"at")  (at …) (at …) …             as long as they begin so
    flag()              (propagate)?

With `left_out` a field is optional: it is not written where it has that value, and if it is, it is refused.
What is missing, unknown, repeated or out of order is refused with the sentence of the declaration, and with
what was expected in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final, Generic, TypeAlias, TypeVar

from maia.canonical.expression import BadSExpression, SExpression, read_canonical, write_canonical
from maia.errors import MaiaError

T = TypeVar("T")
_Word = TypeVar("_Word", bound=Enum)
Items: TypeAlias = tuple[SExpression, ...]
Wrong: TypeAlias = tuple[type[MaiaError], str]
"""With which error a malformed expression is refused, and in which words."""

# INVARIANT: no field is left out for this value.
_REQUIRED: Final = object()
_DECIMAL: Final = re.compile(rb"0|-?[1-9][0-9]*")
_DIGITS_MAX: Final = 20
_REMEMBERED: Final = 1024
_CUT_MAX: Final = 4096
"""Together these two bound the memory: some thousands of pieces, of some thousands of bytes each."""


@dataclass(frozen=True)
class Part(Generic[T]):
    """How one kind of value is written as an expression, or as several items, and how it is read."""

    write: Callable[[T], Any]
    read: Callable[[Any], T]
    """It is handed any expression, or any number of items: what it does not expect it refuses."""
    word: bytes = b""
    """With which its expressions begin, where that is known."""
    cut: Callable[[bytes], T] | None = None
    """Reads the same from bytes, by parts that it remembers; what it refuses, `read` explains."""


class Misplaced(Exception):
    """Something else was expected in this place."""


@dataclass(frozen=True, slots=True)
class Field:
    """Where a value is among the items of a list."""

    part: Part[Any]
    word: bytes | None = None
    is_several: bool = False
    left_out: object = _REQUIRED
    is_run: bool = False

    def put(self, value: Any) -> Items:
        """Return the items of a value."""
        if self.left_out is not _REQUIRED and value == self.left_out:
            return ()
        written = self.part.write(value)
        several: Items = written if self.is_several else (written,)
        return ((self.word, *several),) if self.word and not self.is_run else several

    def take(self, items: Items, at: int) -> tuple[Any, int]:
        """Return the value at this place, and the next place."""
        word, read = self.word, self.part.read
        if not word:
            if self.is_several:
                return read(items[at:]), len(items)
            if at < len(items):
                return read(items[at]), at + 1
        elif self.is_run:
            found = tuple(takewhile(lambda item: isinstance(item, tuple) and item[:1] == (word,), items[at:]))
            return read(found), at + len(found)
        elif at < len(items) and isinstance(item := items[at], tuple) and item and item[0] == word:
            if len(item) != 2 and not self.is_several:
                raise Misplaced(f"`{word.decode()}` with one value")
            value = read(item[1:] if self.is_several else item[1])
            if self.left_out is not _REQUIRED and value == self.left_out:
                raise Misplaced(f"no `{word.decode()}` that means the same as none")
            return value, at + 1
        if self.left_out is _REQUIRED:
            raise Misplaced(f"`{(word or self.part.word).decode()}`" if word or self.part.word else "a value")
        return self.left_out, at


def one(part: Part[Any], word: bytes | None = None, *, left_out: object = _REQUIRED) -> Field:
    """Declare `(word VALUE)`."""
    return Field(part, word, left_out=left_out)


def many(part: Part[Any], word: bytes | None = None, *, left_out: object = _REQUIRED) -> Field:
    """Declare `(word ITEM …)`."""
    return Field(part, word, is_several=True, left_out=left_out)


def bare(part: Part[Any], *, left_out: object = _REQUIRED) -> Field:
    """Declare `VALUE`; with `left_out`, it is there if anything is."""
    return Field(part, b"", left_out=left_out)


def rest(part: Part[Any]) -> Field:
    """Declare `ITEM …` up to the end."""
    return Field(part, b"", is_several=True)


def run(part: Part[Any], word: bytes) -> Field:
    """Declare `(word …) (word …) …`, as many as there are."""
    return Field(part, word, is_several=True, is_run=True)


def flag(word: bytes | None = None) -> Field:
    """Declare `(word)?`; with a value it is refused, as if it said no."""
    return Field(Part(lambda _: (), lambda items: not items), word, is_several=True, left_out=False)


def fields(
    make: Callable[..., T],
    wrong: Wrong,
    /,
    *,
    check: Callable[[T], T] = lambda value: value,
    version_of: str = "",
    **declared: Field,
) -> Part[T]:
    """Declare the items of a list by the attributes that they are for; reader and writer ask `check`.

    With `version_of`, such as "certificate format", the first item is `(version 1)`.
    """
    error, sentence = wrong
    head: Items = ((b"version", b"1"),) if version_of else ()
    ordered = [
        (name, field if field.word is not None else replace(field, word=name.replace("_", "-").encode()))
        for name, field in declared.items()
    ]

    def write(value: T) -> Items:
        check(value)
        return (*head, *(item for name, field in ordered for item in field.put(getattr(value, name))))

    def read(items: Items) -> T:
        at, values = len(head), {}
        try:
            if not isinstance(items, tuple):
                raise Misplaced("a list")
            if items[:at] != head:
                _check_version(items, error, version_of)
            for name, field in ordered:
                values[name], at = field.take(items, at)
            if at < len(items):
                raise Misplaced("nothing more")
        except Misplaced as problem:
            raise error(f"{sentence}: {problem} was expected") from None
        return check(make(**values))

    cuts = _cuts(ordered)
    opening = write_canonical(head)[1:-1]

    def cut(data: bytes) -> T:
        at, values = len(opening), {}
        if not data.startswith(opening) or len(data) > _CUT_MAX:
            raise BadSExpression("INPUT-SEXP-NOT-CANONICAL", "it begins with another version, or is long")
        for name, begins, following, known, left_out in cuts:
            if data.startswith(begins, at):
                end = len(data)
                for word in following:
                    place = data.find(word, at, end)
                    end = end if place < 0 else place
                values[name], at = known(data[at:end]), end
            elif left_out is _REQUIRED:
                raise BadSExpression("INPUT-SEXP-NOT-CANONICAL", "it is not cut where it seems")
            else:
                values[name] = left_out
        if at < len(data):
            raise BadSExpression("INPUT-SEXP-NOT-CANONICAL", "it goes on")
        return check(make(**values))

    return Part(write, read, cut=cut if cuts else None)


def _check_version(items: Items, error: type[MaiaError], version_of: str) -> None:
    match items[:1]:
        case ((b"version", bytes(version)),):
            shown = version[:64].decode("ascii", "backslashreplace")
            raise error(f"version `{shown}` of the {version_of} is unknown")
    raise Misplaced("`version`")


def _cuts(
    ordered: list[tuple[str, Field]],
) -> list[tuple[str, bytes, list[bytes], Callable[[bytes], Any], object]]:
    """Return with which bytes each field begins, and those that may follow; nothing if one is not known.

    The first field begins at the beginning, whatever it is.
    """
    begins = [_opening(field.word or field.part.word) for _, field in ordered]
    if not all(begins[1:]) or any(
        field.is_run or (field.is_several and not field.word) for _, field in ordered
    ):
        return []
    following: list[list[bytes]] = [[] for _ in ordered]
    for place in range(len(ordered) - 1):
        for later in range(place + 1, len(ordered)):
            following[place].append(begins[later])
            if ordered[later][1].left_out is _REQUIRED:
                break
    return [
        (name, begins[place], following[place], _known(field, begins[place]), field.left_out)
        for place, (name, field) in enumerate(ordered)
    ]


def _opening(word: bytes) -> bytes:
    return b"(%d:%b" % (len(word), word) if word else b""


def _known(field: Field, begins: bytes) -> Callable[[bytes], Any]:
    """Return a reader of a field's bytes that remembers what it has read.

    A list is cut where its fields seem to begin. The cut is a guess and needs no proof: every piece must be,
    by itself, exactly one field in its one canonical form, and canonical expressions set side by side can be
    read in one way only.
    """
    part = field.part
    in_brackets = field.is_several and part.cut is None

    @lru_cache(maxsize=_REMEMBERED)
    def known(piece: bytes) -> Any:
        inner = piece[len(begins) : -1] if field.word else piece
        value = _from_bytes(part, b"(%b)" % inner if in_brackets else inner)
        if not piece.endswith(b")") or (field.left_out is not _REQUIRED and value == field.left_out):
            raise BadSExpression("INPUT-SEXP-NOT-CANONICAL", "a field is not in its one form")
        return value

    return known


def _from_bytes(part: Part[T], data: bytes) -> T:
    if part.cut is not None:
        return part.cut(data)
    value = part.read(read_canonical(data))
    if write_canonical(part.write(value)) != data:
        raise BadSExpression("INPUT-SEXP-NOT-CANONICAL", "a part is not in its one form")
    return value


def tagged(word: bytes, part: Part[T], wrong: Wrong) -> Part[T]:
    """Declare `(word ITEM …)` as one expression."""
    error, sentence = wrong
    opening, inner = _opening(word), part.cut

    def read(expression: SExpression) -> T:
        if not isinstance(expression, tuple) or expression[:1] != (word,):
            raise error(sentence)
        return part.read(expression[1:])

    def cut(data: bytes) -> T:
        if inner is None or not data.startswith(opening) or not data.endswith(b")"):
            raise BadSExpression("INPUT-SEXP-NOT-CANONICAL", "it is not cut where it seems")
        return inner(data[len(opening) : -1])

    return Part(lambda value: (word, *part.write(value)), read, word, cut if inner is not None else None)


def record(word: bytes, make: Callable[..., T], wrong: Wrong, /, **declared: Any) -> Part[T]:
    """Declare `(word FIELD …)`; what `fields` is told by name is told the same way here."""
    return tagged(word, fields(make, wrong, **declared), wrong)


def choice(wrong: Wrong, parts: Mapping[Any, Part[Any]], by: Callable[[Any], object] = type) -> Part[Any]:
    """Declare one of several lists; of a value its class, or what `by` returns, says which."""
    error, sentence = wrong
    by_word: dict[SExpression, Part[Any]] = {part.word: part for part in parts.values()}

    def read(expression: SExpression) -> Any:
        part = by_word.get(expression[0]) if isinstance(expression, tuple) and expression else None
        if part is None:
            raise error(sentence)
        return part.read(expression)

    openings = [(_opening(part.word), part) for part in parts.values()]

    def cut(data: bytes) -> Any:
        for opening, part in openings:
            if data.startswith(opening):
                return _from_bytes(part, data)
        raise BadSExpression("INPUT-SEXP-NOT-CANONICAL", "it is not cut where it seems")

    return Part(lambda value: parts[by(value)].write(value), read, cut=cut)


def each(part: Part[T], most: int, wrong: Wrong, least: int = 0) -> Part[tuple[T, ...]]:
    """Declare so many items of one kind; of `wrong`, the sentence is formatted with their number."""
    error, sentence = wrong

    def counted(items: tuple[Any, ...]) -> tuple[Any, ...]:
        if not least <= len(items) <= most:
            raise error(sentence.format(len(items)))
        return items

    return Part(
        lambda values: tuple(map(part.write, counted(values))),
        lambda items: tuple(map(part.read, counted(items))),
    )


def alone(part: Part[T], wrong: Wrong) -> Part[T]:
    """Declare several items that are one."""
    error, sentence = wrong

    def read(items: Items) -> T:
        if len(items) != 1:
            raise error(sentence)
        return part.read(items[0])

    return Part(lambda value: (part.write(value),), read)


def either(word: bytes, meaning: object, part: Part[T]) -> Part[Any]:
    """Declare one word for one meaning, such as `*` for any, and a part for all others."""
    written = write_canonical(word)
    return Part(
        lambda value: word if value == meaning else part.write(value),
        lambda expression: meaning if expression == word else part.read(expression),
        cut=lambda data: meaning if data == written else _from_bytes(part, data),
    )


def octets(least: int, most: int, wrong: Wrong) -> Part[bytes]:
    """Declare a string of so many bytes."""
    error, sentence = wrong

    def checked(value: object) -> bytes:
        if not isinstance(value, bytes) or not least <= len(value) <= most:
            raise error(sentence)
        return value

    return Part(checked, checked)


def number(least: int, most: int, wrong: Wrong) -> Part[int]:
    """Declare a decimal number: without a plus, without leading zeros."""
    error, sentence = wrong

    def read(digits: SExpression) -> int:
        if isinstance(digits, bytes) and len(digits) <= _DIGITS_MAX and _DECIMAL.fullmatch(digits):
            found = int(digits)
            if least <= found <= most:
                return found
        raise error(sentence)

    return Part(lambda value: b"%d" % value, read)


def word_of(words: Iterable[_Word], error: type[MaiaError], sentence: str) -> Part[_Word]:
    """Declare a member of an enumeration; what was read in its place can be a part of the sentence."""
    known = {one.value.encode(): one for one in words}

    def read(expression: SExpression) -> _Word:
        found = known.get(expression) if isinstance(expression, bytes) else None
        if found is None:
            shown = (
                expression[:64].decode("ascii", "backslashreplace") if isinstance(expression, bytes) else "(…"
            )
            raise error(sentence.format(shown))
        return found

    return Part(lambda value: value.value.encode(), read)
