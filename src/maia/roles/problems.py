"""What is wrong with a policy, where, and what was perhaps meant?

An author wants to see all mistakes at once, each with its line, its rule
and a hint, and none that only follows from another one. A policy with
any problem is refused as a whole: the caller keeps the last good one, and
where there never was one, nothing is granted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from maia.errors import BadInput

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
        return {
            "line": self.line,
            "column": self.column,
            "statement": self.statement,
            "sentence": self.sentence,
            "hint": self.hint,
        }


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
