"""Is there a string that meets all of these demands at once?

Covering asks it about suffixes, infixes, words and topic levels, wanted and unwanted, within
an interval of strings. Each demand is a small automaton that reads the string
from left to right; we walk through their product, breadth first, and stop at
the first string that satisfies all of them. Characters that no automaton
distinguishes are tried once. The answer is exact: a shortest string, or None
as proof that there is none; a walk that takes too many steps ends in
`OutOfSteps`, and the caller stays cautious.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Protocol, TypeAlias

from maia.predicates.covering.ordered_sets import Edges
from maia.predicates.meaning import text_holds
from maia.predicates.path_patterns import PathPattern, parse_path_pattern
from maia.predicates.syntax import Steps, TextTest

State: TypeAlias = Any
# Any: each automaton has its own kind of state, hashable, and no one else looks into it.


@dataclass(frozen=True, slots=True)
class TextClaim:
    """One demand on a string: that a suffix, infix, token or path is there, or that it is not."""

    test: TextTest
    text: str
    holds: bool

    def negated(self) -> TextClaim:
        """Return the opposite demand."""
        return TextClaim(self.test, self.text, not self.holds)


def claim_holds(claim: TextClaim, value: str) -> bool:
    """Return whether one string meets a demand."""
    return text_holds(claim.test, value, claim.text) is claim.holds


def implies(given: TextClaim, asked: TextClaim) -> bool:
    """Return whether one demand visibly implies another; a cheap "yes", and no proof of "no"."""
    if given.holds is not asked.holds:
        return False
    strong, weak = (given, asked) if given.holds else (asked, given)
    if strong.test is TextTest.SUFFIX and weak.test is TextTest.SUFFIX:
        return strong.text.endswith(weak.text)
    if strong.test is TextTest.LEVELS:  # its text is no part of what it means
        is_path = weak.test is TextTest.LEVELS
        return is_path and parse_path_pattern(weak.text).covers(parse_path_pattern(strong.text))
    return strong == weak or (weak.test is TextTest.CONTAINS and weak.text in strong.text)


def string_satisfying(edges: Edges, claims: Iterable[TextClaim], steps: Steps) -> str | None:
    """Return a shortest string inside `edges` that meets every claim, or None if there is none."""
    machines: list[_Automaton] = [_Inside(edges), *map(_automaton_of, sorted(claims, key=_order))]
    start = tuple(machine.start for machine in machines)
    waiting: deque[tuple[tuple[State, ...], _Spelling]] = deque([(start, None)])
    seen = {start}
    while waiting:
        states, read = waiting.popleft()
        if all(machine.accepts(state) for machine, state in zip(machines, states, strict=True)):
            return _spelled(read)
        for character in _characters(machines, states, steps):
            steps.spend(len(machines))
            following = _moved(machines, states, character)
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append((following, (read, character)))
    return None


_Spelling: TypeAlias = "tuple[_Spelling, str] | None"


def _spelled(read: _Spelling) -> str:
    characters: list[str] = []
    while read is not None:
        read, character = read
        characters.append(character)
    return "".join(reversed(characters))


def _order(claim: TextClaim) -> tuple[bool, str, str]:
    # The walk must take the same steps in every run, so the order of a set may not decide it.
    return (claim.holds, claim.test.value, claim.text)


class _Automaton(Protocol):
    """A deterministic reader of strings."""

    start: State

    def moved(self, state: State, character: str) -> State | None:
        """Return the state after a character; None if no continuation can be accepted."""

    def accepts(self, state: State) -> bool:
        """Return whether the string read so far meets the demand."""

    def distinguishing(self, state: State) -> Iterable[str]:
        """Return the characters that lead elsewhere than all others do."""


def _moved(
    machines: Sequence[_Automaton], states: tuple[State, ...], character: str
) -> tuple[State, ...] | None:
    following: list[State] = []
    for machine, state in zip(machines, states, strict=True):
        state_after = machine.moved(state, character)
        if state_after is None:
            return None
        following.append(state_after)
    return tuple(following)


def _characters(machines: Sequence[_Automaton], states: tuple[State, ...], steps: Steps) -> Iterator[str]:
    """Yield every distinguishing character, and one for each gap between them."""
    found_at: list[set[str]] = []
    for machine, state in zip(machines, states, strict=True):
        found = list(machine.distinguishing(state))
        steps.spend(len(found))
        found_at.append(set(found))
    distinguishing: set[str] = set().union(*found_at)
    yield from sorted(distinguishing)
    ends = [0, *sorted(map(ord, found_at[0])), sys.maxunicode + 1]
    for low, high in pairwise(ends):
        for point in range(low + 1, high):
            if not 0xD800 <= point <= 0xDFFF and chr(point) not in distinguishing:
                yield chr(point)
                break


class _Inside:
    """Reads whether a string lies inside some edges.

    A state is a range of edges that begin with what was read, and how many
    characters that is; or only the number of edges below, once no edge can be
    met any more.
    """

    def __init__(self, edges: Edges) -> None:
        self._edges: tuple[str, ...] = edges
        self.start: State = (0, len(edges), 0)

    def moved(self, state: State, character: str) -> State | None:
        if isinstance(state, int):
            return state
        low, high, depth = state
        low += low < high and len(self._edges[low]) == depth
        begins = bisect_left(self._edges, character, low, high, key=lambda edge: edge[depth])
        ends = bisect_right(self._edges, character, begins, high, key=lambda edge: edge[depth])
        if begins < ends:
            return (begins, ends, depth + 1)
        return begins if begins % 2 == 1 else None

    def accepts(self, state: State) -> bool:
        if isinstance(state, int):
            return state % 2 == 1
        low, high, depth = state
        below = low + (low < high and len(self._edges[low]) == depth)
        return bool(below % 2 == 1)

    def distinguishing(self, state: State) -> Iterable[str]:
        if isinstance(state, int):
            return ()
        low, high, depth = state
        return [edge[depth] for edge in self._edges[low:high] if len(edge) > depth]


class _Ending:
    """Reads whether a string ends with a text (Knuth, Morris and Pratt)."""

    start: State = 0

    def __init__(self, text: str, *, holds: bool) -> None:
        self._text, self._holds = text, holds
        self._falls = _failure_function(text)

    def moved(self, state: State, character: str) -> State | None:
        matched: int = state
        while matched == len(self._text) or self._text[matched] != character:
            if matched == 0:
                return 0
            matched = self._falls[matched]
        return matched + 1

    def accepts(self, state: State) -> bool:
        return (state == len(self._text)) is self._holds

    def distinguishing(self, state: State) -> Iterable[str]:
        matched: int = state
        while True:
            if matched < len(self._text):
                yield self._text[matched]
            if matched == 0:
                return
            matched = self._falls[matched]


class _Containing(_Ending):
    """Reads whether a text has occurred; once it has, it has for good."""

    def moved(self, state: State, character: str) -> State | None:
        following = state if state == len(self._text) else super().moved(state, character)
        return None if following == len(self._text) and not self._holds else following

    def distinguishing(self, state: State) -> Iterable[str]:
        return () if state == len(self._text) else super().distinguishing(state)


_ASTRAY: Final = -1  # this word is another one; wait for the next space
_FOUND: Final = -2


class _Word:
    """Reads whether one of the words between single spaces is the given one."""

    start: State = 0

    def __init__(self, word: str, *, holds: bool) -> None:
        self._word, self._holds = word, holds

    def moved(self, state: State, character: str) -> State | None:
        if state == _FOUND:
            return state
        if character == " ":
            complete = state == len(self._word)
            return 0 if not complete else _FOUND if self._holds else None
        fits = 0 <= state < len(self._word) and self._word[state] == character
        return state + 1 if fits else _ASTRAY

    def accepts(self, state: State) -> bool:
        return (state in (len(self._word), _FOUND)) is self._holds

    def distinguishing(self, state: State) -> Iterable[str]:
        if state == _FOUND:
            return ()
        return (" ", self._word[state]) if 0 <= state < len(self._word) else (" ",)


class _Levels:
    """Reads whether a string is one of the paths that a pattern means.

    A state is how many characters of the pattern were met; inside a `+`, one level of any length is one
    character of the pattern. `_ASTRAY` is met no more, and `_FOUND` is met whatever follows.
    """

    start: State = 0

    def __init__(self, pattern: PathPattern, *, holds: bool) -> None:
        self._text = "".join(f"/{level}" for level in pattern.levels)
        self._has_rest, self._holds = pattern.has_rest, holds

    def moved(self, state: State, character: str) -> State | None:
        following = self._following(state, character)
        if following == (_ASTRAY if self._holds else _FOUND):
            return None
        return following

    def _following(self, state: int, character: str) -> int:
        if state < 0:
            return state
        if state == len(self._text):
            if character != "/":
                return state if self._text[-1] == "+" else _ASTRAY
            return _FOUND if self._has_rest else _ASTRAY
        if self._text[state - 1 : state] == "+" and character != "/":
            return state
        if self._text[state] == "+":
            return _ASTRAY if character == "/" else state + 1
        return state + 1 if self._text[state] == character else _ASTRAY

    def accepts(self, state: State) -> bool:
        return (state in (len(self._text), _FOUND)) is self._holds

    def distinguishing(self, state: State) -> Iterable[str]:
        if state < 0:
            return ()
        return ("/",) if state == len(self._text) or self._text[state] == "+" else ("/", self._text[state])


def _automaton_of(claim: TextClaim) -> _Automaton:
    match claim.test:
        case TextTest.SUFFIX:
            return _Ending(claim.text, holds=claim.holds)
        case TextTest.CONTAINS:
            return _Containing(claim.text, holds=claim.holds)
        case TextTest.TOKEN:
            return _Word(claim.text, holds=claim.holds)
        case TextTest.LEVELS:
            return _Levels(parse_path_pattern(claim.text), holds=claim.holds)
        case TextTest.PREFIX:
            raise AssertionError("a prefix is an interval of strings and needs no automaton")


def _failure_function(text: str) -> list[int]:
    """Return, for each number of matched characters, how many stay matched after the next mismatch."""
    failure_links = [0] * (len(text) + 1)
    matched = 0
    for index in range(1, len(text)):
        while matched and text[index] != text[matched]:
            matched = failure_links[matched]
        matched += text[index] == text[matched]
        failure_links[index + 1] = matched
    return failure_links
