"""Where does one statement of a policy end and the next begin, and what is wrong with it?

A statement begins at the left edge. Indented lines below it belong to it: one
that begins with a clause word opens a clause, any other goes on with the line
above. `#` begins a comment when a space, another `#` or the end of the line
follows it; `#3265` is an attribute by its uid. Line and column survive all of
this, so that every complaint points into the author's own text.

An author wants to see all mistakes at once, each with its line, its rule
and a hint, and none that only follows from another one. A policy with
any problem is refused as a whole: the caller keeps the last good one, and
where there never was one, nothing is granted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Final, TypeAlias

from maia.errors import BadInput
from maia.predicates.language.scanner import NAME, BadPredicateText, Scanner

PROBLEMS_MAX: Final = 20
"""After so many, reading stops: the rest would mostly follow from these."""


@dataclass(frozen=True, slots=True, order=True)
class PolicyProblem:
    """One mistake: where it is (from 1), in which statement, what it is, and a hint."""

    line: int
    column: int
    statement: str
    sentence: str
    hint: str = ""

    def __str__(self) -> str:
        """Return the problem as one line for people."""
        within = f" in `{self.statement}`" if self.statement else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"line {self.line}, column {self.column}{within}: {self.sentence}{hint}"

    def as_record(self) -> dict[str, object]:
        """Return the problem as named fields."""
        return asdict(self)


class BadPolicy(BadInput):
    """A policy cannot be used; `problems` lists what to mend, from the top of the text."""

    code = "INPUT-ROLE-POLICY"

    def __init__(self, origin: str, problems: Iterable[PolicyProblem]) -> None:
        """Collect the problems of one text."""
        self.origin = origin
        self.problems = tuple(sorted(set(problems)))
        count = "one problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        listed = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"the policy `{shown(origin)}` has {count}:{listed}")

    def as_record(self) -> dict[str, object]:
        """Return the error as named fields, with each problem."""
        return {**super().as_record(), "problems": [problem.as_record() for problem in self.problems]}


class Complaint(Exception):
    """Something is wrong at a position of the fragment that is being read."""

    def __init__(self, sentence: str, *, at: int, hint: str = "") -> None:
        """Point at a position in the fragment's text."""
        super().__init__(sentence)
        self.sentence, self.at, self.hint = sentence, at, hint


class Consequence(Complaint):
    """This would not be wrong, had something else not been: what that is, is reported already."""


MISREAD: Final = (Complaint, BadPredicateText)
"""What a reader raises: a sentence about a position, with or without a hint."""
Misread: TypeAlias = Complaint | BadPredicateText


class TooManyProblems(Exception):
    """Enough has been found."""


class Problems:
    """What has been found so far in one text."""

    def __init__(self, origin: str) -> None:
        """Begin with none."""
        self._origin = origin
        self._found: list[PolicyProblem] = []
        self._following: list[PolicyProblem] = []
        self._spoilt: set[int] = set()

    def add(self, problem: PolicyProblem) -> None:
        """Remember one more; stop reading when there are enough."""
        if problem.line in self._spoilt:
            self._following.append(problem)
            return
        self._found.append(problem)
        if len(self._found) >= PROBLEMS_MAX:
            raise TooManyProblems

    def add_spoilt(self, problem: PolicyProblem) -> None:
        """Add one that makes further problems of its line worthless."""
        self.add(problem)
        self._spoilt.add(problem.line)

    def add_following(self, problem: PolicyProblem) -> None:
        """Add one that is not shown, because it follows from another one."""
        self._following.append(problem)

    def refuse_if_any(self) -> None:
        """Raise `BadPolicy` with all that was found; what cannot be read is never left out in silence."""
        found = self._found or self._following
        if found:
            raise BadPolicy(self._origin, found)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `did you mean …?` with the nearest known name, or nothing."""
    folded = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name[:64].lower(), folded, n=1)
    return f"did you mean `{folded[close[0]]}`?" if close else ""


def shown(text: str) -> str:
    """Return a user's text, bounded and without what could not be seen."""
    return text[:64].encode("unicode_escape").decode()


POLICY_BYTES_MAX: Final = 1 << 19
STATEMENTS_MAX: Final = 2000
CLAUSES_MAX: Final = 64

CLAUSE_WORDS: Final = frozenset(
    (
        *("while", "given", "if", "ask", "for", "until", "may", "where", "provided", "checked"),
        *("as", "set", "every", "per", "bound"),
    )
)

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
    word: str = ""
    """The word before it, if it is a clause."""

    @property
    def first_word(self) -> str:
        """Return the word that it begins with, if it does."""
        found = NAME.match(self.text)
        return found.group() if found else ""

    def scanner(self) -> Scanner:
        """Return a scanner at its beginning."""
        return Scanner(self.text)

    def behind(self, word: str) -> Fragment:
        """Return what follows the first word, at its own place."""
        cut = len(self.text) - len(self.text[len(word) :].lstrip(" \t"))
        return Fragment(self.text[cut:], self.line, self.column + cut)

    def part(self, found: re.Match[str], group: str, word: str) -> Fragment:
        """Return a group of a match as a clause, at its own place."""
        return Fragment(found.group(group), *self.place(found.start(group)), word)

    def place(self, position: int) -> tuple[int, int]:
        """Return line and column of a position in `text`."""
        lines = self.text.count("\n", 0, position)
        begins = self.text.rfind("\n", 0, position) + 1
        return self.line + lines, position - begins + (1 if lines else self.column)

    def problem(self, statement: str, sentence: str, *, at: int = 0, hint: str = "") -> PolicyProblem:
        """Return a complaint about a position in `text`."""
        return PolicyProblem(*self.place(at), statement, sentence, hint)

    def report(self, problems: Problems, statement: str, refusal: Misread) -> None:
        """Add what a reader complains of, at its place in the whole, to what was found."""
        sentence = refusal.sentence
        if self.word == "if":
            sentence = sentence.replace("no attribute", "no variable", 1)
        add = problems.add_following if isinstance(refusal, Consequence) else problems.add
        add(self.problem(statement, sentence, at=refusal.at, hint=refusal.hint))


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its head, and its clauses."""

    head: Fragment
    clauses: tuple[Fragment, ...]

    @property
    def word(self) -> str:
        """Return the first word, which says what kind of statement it is."""
        return self.head.first_word


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


_Piece: TypeAlias = tuple[int, int, list[str]]
"""Line, column and text of a head or a clause while its lines are being collected."""


def _statements(lines: list[str], problems: Problems) -> Iterator[Statement]:
    pieces: list[_Piece] = []
    for number, line in enumerate(lines, start=1):
        body = line.strip()
        if body and line[0] not in " \t":
            if pieces:
                yield _statement(pieces, problems)
            pieces = [(number, 1, [line])]
        elif pieces and Fragment(body, 1, 1).first_word in CLAUSE_WORDS:
            pieces.append((number, line.index(body) + 1, [body]))
        elif pieces:
            pieces[-1][2].append(line)  # blank ones too, so that lines are counted as the author does
        elif body:
            said = "a statement begins at the left edge, and this line is indented"
            problems.add(PolicyProblem(number, 1, "", said))
    if pieces:
        yield _statement(pieces, problems)


def _statement(pieces: list[_Piece], problems: Problems) -> Statement:
    head, *rest = (Fragment("\n".join(lines).rstrip(), line, column) for line, column, lines in pieces)
    if len(rest) > CLAUSES_MAX:
        problems.add(head.problem("", f"a statement has at most {CLAUSES_MAX} clauses"))
    return Statement(head, tuple(map(_clause, rest[:CLAUSES_MAX])))


def _clause(piece: Fragment) -> Fragment:
    word = piece.first_word
    return Fragment(piece.text[len(word) :], piece.line, piece.column + len(word), word)
