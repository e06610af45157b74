"""What comes next in the text of a predicate, and how do we point at it?

The parser asks for one thing at a time, so the place decides how characters
are read: `5e-3` is a uid where a name is expected and a number where a literal
is. Every refusal shows the line and a caret under the column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from maia.errors import BadInput

_SPACES: Final = frozenset(" \t\r\n")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
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

    def __init__(self, sentence: str, *, text: str, position: int) -> None:
        """Point at `position` in `text`."""
        begins = text.rfind("\n", 0, position) + 1
        self.line = text.count("\n", 0, position) + 1
        self.column = position - begins + 1
        self.sentence = sentence
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


class Scanner:
    """A text and a position in it."""

    __slots__ = ("_position", "_text")

    def __init__(self, text: str) -> None:
        """Start at the beginning."""
        self._text = text
        self._position = 0

    def mark(self) -> int:
        """Skip spaces and return the position, for a later complaint."""
        while self._text[self._position : self._position + 1] in _SPACES:
            self._position += 1
        return self._position

    def at_end(self) -> bool:
        """Say whether only spaces are left."""
        return self.mark() == len(self._text)

    def take(self, sign: str) -> bool:
        """Take one punctuation sign if it is next."""
        if not self._text.startswith(sign, self.mark()):
            return False
        self._position += len(sign)
        return True

    def must_take(self, sign: str) -> None:
        """Take one punctuation sign, or complain."""
        if not self.take(sign):
            raise self.expected(f"`{sign}`")

    def take_word(self, word: str) -> bool:
        """Take a whole word if it is next: `in` does not begin `index`."""
        found = _NAME.match(self._text, self.mark())
        if found is None or found.group() != word:
            return False
        self._position = found.end()
        return True

    def must_take_word(self, word: str) -> None:
        """Take a whole word, or complain."""
        if not self.take_word(word):
            raise self.expected(f"`{word}`")

    def take_name(self) -> str | None:
        """Take a name or a uid if one is next."""
        return self.take_match(_NAME)

    def take_function(self) -> str | None:
        """Take a word and the parenthesis behind it, if they are next; return the word."""
        found = _FUNCTION.match(self._text, self.mark())
        # `and (`, `or (`, `in (` and `not (` are no calls; the parser complains of them in its own words.
        if found is None or found.group(1) in ("and", "or", "in", "not"):
            return None
        self._position = found.end()
        return found.group(1)

    def take_sign(self, known: Iterable[str]) -> str | None:
        """Take a comparison sign if exactly one of the known ones is next."""
        found = _SIGN.match(self._text, self.mark())
        if found is None or found.group() not in known:
            return None
        self._position = found.end()
        return found.group()

    def take_match(self, pattern: re.Pattern[str]) -> str | None:
        """Take what a pattern matches here, if it does."""
        self.mark()
        return self.take_here(pattern)

    def take_here(self, pattern: re.Pattern[str]) -> str | None:
        """Take what a pattern matches at this very position: inside quotes a space is not skipped."""
        found = pattern.match(self._text, self._position)
        if found is None:
            return None
        self._position = found.end()
        return found.group()

    def here(self) -> int:
        """Return the very position, spaces not skipped."""
        return self._position

    def ends_here(self) -> bool:
        """Say whether nothing is left, not even a space."""
        return self._position == len(self._text)

    def sees(self, sign: str) -> bool:
        """Say whether some characters are next, without taking them."""
        return self._text.startswith(sign, self.mark())

    def seen(self) -> str:
        """Return the next word or sign, shortened to what a message can show."""
        position = self.mark()
        found = _NAME.match(self._text, position) or _SIGNS.match(self._text, position)
        return found.group()[:32] if found else self._text[position : position + 1]

    def go_back(self, position: int) -> None:
        """Return to a place marked earlier."""
        self._position = position

    def expected(self, what: str) -> BadPredicateText:
        """Return the error that something else is here than what was expected."""
        position, seen = self.mark(), self.seen()
        shown = seen if seen.isprintable() else ascii(seen)[1:-1]
        found = f"found `{shown}`" if seen else "the text ends"
        return BadPredicateText(f"expected {what}, but {found}", text=self._text, position=position)

    def refused(
        self,
        sentence: str,
        *,
        at: int | None = None,
        back: int = 0,
        problem: type[BadPredicateText] = BadPredicateText,
    ) -> BadPredicateText:
        """Return a complaint about this place, or about the place marked earlier."""
        position = (self._position - back if back else self.mark()) if at is None else at
        return problem(sentence, text=self._text, position=position)
