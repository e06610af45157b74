"""What comes next in a text, and how do we point at it?

Filters, expressions, assignments and policies are all read with this one
scanner. The reader asks for one thing at a time, so the place decides how
characters are read: `5e-3` is a uid where a name is expected and a number
where a literal is. Whatever is wrong has a position, and every refusal shows
the line and a caret under the column (docs/decisions/filter-language.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final, TypeVar

from maia.errors import BadInput

T = TypeVar("T")

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""What an author calls an attribute, a variable, a role."""

_SPACES: Final = frozenset(" \t\r\n")
_WORD: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_FUNCTION: Final = re.compile(r"([A-Za-z_]+)[ \t\r\n]*\(")
_SIGN: Final = re.compile(r"[=!<>]+")
_SIGNS: Final = re.compile(r"[=!<>~&|]+")
_SHOWN_BEFORE: Final = 50
_SHOWN_AFTER: Final = 28


class BadPredicateText(BadInput):
    """The text of a predicate cannot be read; `line` and `column` (from 1) say where.

    `sentence` is the complaint without the place, for those who show another one.
    """

    code = "INPUT-PREDICATE-TEXT"
    hint = ""

    def __init__(self, sentence: str, *, text: str, position: int) -> None:
        """Point at `position` in `text`."""
        begins = text.rfind("\n", 0, position) + 1
        self.line = text.count("\n", 0, position) + 1
        self.column = position - begins + 1
        self.sentence, self.at = sentence, position
        line = f"line {self.line}, " if "\n" in text.strip() else ""
        shown = _pointed(text[begins:].split("\n", 1)[0], position - begins)
        super().__init__(f"{sentence}, at {line}column {self.column}\n{shown}")

    def as_record(self) -> dict[str, object]:
        """Return the error as named fields, with the place."""
        return {**super().as_record(), "line": self.line, "column": self.column}


def _pointed(line: str, column: int) -> str:
    """Return a bounded part of the line, and a caret below the column."""
    first = max(0, column - _SHOWN_BEFORE)
    part = line[first : column + _SHOWN_AFTER]
    shown = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in part
    )
    return f"  {shown}\n  {' ' * (column - first)}^"


def nearest(name: str, known: Iterable[str], sign: str = "") -> str:
    """Return ` (the nearest is …)` with the known name that was perhaps meant, or nothing."""
    near = get_close_matches(name[:64], known, n=1)
    return f" (the nearest is `{sign}{near[0]}`)" if near else ""


class Scanner:
    """A text and a position in it."""

    __slots__ = ("position", "text")

    def __init__(self, text: str, position: int = 0) -> None:
        """Start at the beginning, or at a position."""
        self.text, self.position = text, position

    def mark(self) -> int:
        """Skip spaces and return the position, for a later complaint or to come back to."""
        while self.text[self.position : self.position + 1] in _SPACES:
            self.position += 1
        return self.position

    def at_end(self) -> bool:
        """Return whether only spaces are left."""
        return self.mark() == len(self.text)

    def must_end(self, what: str) -> None:
        """Complain if anything is left."""
        if not self.at_end():
            raise self.expected(what)

    def sees(self, sign: str) -> bool:
        """Return whether some characters are next, without taking them."""
        return self.text.startswith(sign, self.mark())

    def take(self, sign: str) -> bool:
        """Take one punctuation sign if it is next."""
        if not self.text.startswith(sign, self.mark()):
            return False
        self.position += len(sign)
        return True

    def must_take(self, sign: str) -> None:
        """Take one punctuation sign, or complain."""
        if not self.take(sign):
            raise self.expected(f"`{sign}`")

    def take_word(self, *words: str) -> str | None:
        """Take one of some whole words if it is next: `in` does not begin `index`."""
        found = _WORD.match(self.text, self.mark())
        if found is None or found.group() not in words:
            return None
        self.position = found.end()
        return found.group()

    def must_take_word(self, word: str) -> None:
        """Take a whole word, or complain."""
        if self.take_word(word) is None:
            raise self.expected(f"`{word}`")

    def take_name(self) -> str | None:
        """Take a name or a uid if one is next."""
        return self.take_match(_WORD)

    def take_function(self) -> str | None:
        """Take a word and the parenthesis behind it, if they are next; return the word."""
        found = _FUNCTION.match(self.text, self.mark())
        # `and (`, `or (`, `in (` and `not (` are no calls; the parser complains of them in its own words.
        if found is None or found.group(1) in ("and", "or", "in", "not"):
            return None
        self.position = found.end()
        return found.group(1)

    def take_sign(self, known: Iterable[str]) -> str | None:
        """Take a comparison sign if exactly one of the known ones is next."""
        found = _SIGN.match(self.text, self.mark())
        if found is None or found.group() not in known:
            return None
        self.position = found.end()
        return found.group()

    def take_match(self, pattern: re.Pattern[str]) -> str | None:
        """Take what a pattern matches here, if it does."""
        self.mark()
        return self.take_here(pattern)

    def take_here(self, pattern: re.Pattern[str]) -> str | None:
        """Take what a pattern matches at this very position: inside quotes a space is not skipped."""
        found = pattern.match(self.text, self.position)
        if found is None:
            return None
        self.position = found.end()
        return found.group()

    def take_list(self, read: Callable[[], T]) -> list[T]:
        """Take one thing or more between commas, up to and with the `)` behind the last."""
        listed = [read()]
        while not self.take(")"):
            if not self.take(","):
                raise self.expected("`,` or `)`")
            listed.append(read())
        return listed

    def seen(self) -> str:
        """Return the next word or sign, shortened to what a message can show."""
        position = self.mark()
        found = _WORD.match(self.text, position) or _SIGNS.match(self.text, position)
        return found.group()[:32] if found else self.text[position : position + 1]

    def expected(self, what: str) -> BadPredicateText:
        """Return the error that something else is here than what was expected."""
        position, seen = self.mark(), self.seen()
        shown = seen if seen.isprintable() else ascii(seen)[1:-1]
        found = f"found `{shown}`" if seen else "the text ends"
        return BadPredicateText(f"expected {what}, but {found}", text=self.text, position=position)

    def refused(
        self,
        sentence: str,
        *,
        at: int | None = None,
        problem: type[BadPredicateText] = BadPredicateText,
    ) -> BadPredicateText:
        """Return a complaint about this place, or about the place marked earlier."""
        return problem(sentence, text=self.text, position=self.mark() if at is None else at)
