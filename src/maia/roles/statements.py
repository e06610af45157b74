"""Where does one statement of a policy end and the next begin?

A statement begins at the left edge. Indented lines below it belong to it: one
that begins with a clause word opens a clause, any other goes on with the line
above. `#` begins a comment when a space, another `#` or the end of the line
follows it; `#3265` is an attribute by its uid. Line and column survive all of
this, so that every complaint points into the author's own text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from maia.predicates.language.scanner import BadPredicateText, Scanner
from maia.roles.problems import Complaint, Consequence, PolicyProblem, Problems

POLICY_BYTES_MAX: Final = 1 << 19
STATEMENTS_MAX: Final = 2000
CLAUSES_MAX: Final = 64

CLAUSE_WORDS: Final = frozenset(
    (
        *("while", "given", "if", "ask", "for", "until", "may", "where", "provided", "checked"),
        *("as", "set", "every", "per"),
    )
)

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|#(?=[\s#]|$)')
_STRANGE: Final = re.compile(
    r"[^\S\n\t ]|[\x00-\x08\x0e-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]"
)


@dataclass(frozen=True, slots=True)
class Fragment:
    """Some of the author's text, and where it begins (from 1). Later lines begin at column 1."""

    text: str
    line: int
    column: int

    def scanner(self) -> Scanner:
        """Return a scanner at its beginning."""
        return Scanner(self.text)

    def behind(self, word: str) -> Fragment:
        """Return what follows the first word, at its own place."""
        cut = len(self.text) - len(self.text[len(word) :].lstrip(" \t"))
        return Fragment(self.text[cut:], self.line, self.column + cut)

    def place(self, position: int) -> tuple[int, int]:
        """Return line and column of a position in `text`."""
        lines = self.text.count("\n", 0, position)
        begins = self.text.rfind("\n", 0, position) + 1
        return self.line + lines, position - begins + (1 if lines else self.column)

    def problem(self, statement: str, sentence: str, *, at: int = 0, hint: str = "") -> PolicyProblem:
        """Return a complaint about a position in `text`."""
        return PolicyProblem(*self.place(at), statement, sentence, hint)

    def report(self, problems: Problems, statement: str, refusal: BadPredicateText | Complaint) -> None:
        """Add what is wrong here to what was found."""
        add = problems.add_following if isinstance(refusal, Consequence) else problems.add
        add(self.problem_of(statement, refusal))

    def problem_of(self, statement: str, refusal: BadPredicateText | Complaint) -> PolicyProblem:
        """Return what a reader or the predicate parser complains of, at its place in the whole."""
        if isinstance(refusal, Complaint):
            return self.problem(statement, refusal.sentence, at=refusal.at, hint=refusal.hint)
        first = refusal.line == 1
        column = refusal.column + (self.column - 1 if first else 0)
        return PolicyProblem(self.line + refusal.line - 1, column, statement, refusal.sentence)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its head, and its clauses by their first words."""

    head: Fragment
    clauses: tuple[tuple[str, Fragment], ...]

    @property
    def word(self) -> str:
        """Return the first word, which says what kind of statement it is."""
        found = _WORD.match(self.head.text)
        return found.group() if found else ""


def split_statements(text: str, problems: Problems) -> tuple[Statement, ...]:
    """Cut a text into statements; report what is no text at all."""
    if len(text) > POLICY_BYTES_MAX or len(text.encode(errors="replace")) > POLICY_BYTES_MAX:
        problems.add(PolicyProblem(1, 1, "", f"a policy is at most {POLICY_BYTES_MAX} bytes long"))
        return ()
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if strange := _STRANGE.search(line):
            said = f"the character U+{ord(strange.group()):04X} does not belong in a policy"
            problems.add_spoilt(PolicyProblem(number, strange.start() + 1, "", said))
    statements = tuple(_statements([_without_comment(line) for line in lines], problems))
    if len(statements) > STATEMENTS_MAX:
        problems.add(PolicyProblem(1, 1, "", f"a policy has at most {STATEMENTS_MAX} statements"))
        return ()
    return statements


def _without_comment(line: str) -> str:
    for found in _COMMENT.finditer(line):
        if found.group() == "#":
            return line[: found.start()]
    return line


def _statements(lines: list[str], problems: Problems) -> Iterator[Statement]:
    pieces: list[_Piece] = []
    for number, line in enumerate(lines, start=1):
        body = line.strip()
        if body and line[0] not in " \t":
            if pieces:
                yield _statement(pieces, problems)
            pieces = [_Piece(number, 1, [line])]
        elif pieces and _opens_clause(body):
            pieces.append(_Piece(number, line.index(body) + 1, [body]))
        elif pieces:
            pieces[-1].lines.append(line)  # blank ones too, so that lines are counted as the author does
        elif body:
            said = "a statement begins at the left edge, and this line is indented"
            problems.add(PolicyProblem(number, 1, "", said))
    if pieces:
        yield _statement(pieces, problems)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A head or a clause while its lines are being collected."""

    line: int
    column: int
    lines: list[str]

    def whole(self) -> Fragment:
        return Fragment("\n".join(self.lines).rstrip(), self.line, self.column)


def _opens_clause(body: str) -> bool:
    word = _WORD.match(body)
    return word is not None and word.group() in CLAUSE_WORDS


def _statement(pieces: list[_Piece], problems: Problems) -> Statement:
    head, *rest = (piece.whole() for piece in pieces)
    if len(rest) > CLAUSES_MAX:
        problems.add(head.problem("", f"a statement has at most {CLAUSES_MAX} clauses"))
    return Statement(head, tuple((_word(piece), _behind_word(piece)) for piece in rest[:CLAUSES_MAX]))


def _word(piece: Fragment) -> str:
    word = _WORD.match(piece.text)
    return word.group() if word else ""


def _behind_word(piece: Fragment) -> Fragment:
    length = len(_word(piece))
    return Fragment(piece.text[length:], piece.line, piece.column + length)
