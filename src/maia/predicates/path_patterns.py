"""Which topic paths does a pattern with wildcards mean, and which do two patterns mean together?

Subscribers write patterns in filters and owners write them in certificates.
`+` stands for exactly one level and `#`, at the end, for the level before it
and everything below, as in MQTT. Patterns are closed under intersection:
what two of them mean together is one pattern or nothing, never something that
merely overlaps. Covering is exact too (docs/decisions/topics.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from maia.errors import BadInput

LEVELS_MAX: Final = 16
"""Levels of a topic path, and of a pattern."""

PATH_MAX: Final = 200
"""Characters of a topic path, and of a pattern without its `/#`."""

ONE: Final = "+"
REST: Final = "#"

_LEVEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_ -]*[A-Za-z0-9_])?", re.ASCII)


class BadPathPattern(BadInput):
    """A text is not a pattern of topic paths."""

    code = "INPUT-TOPIC-PATTERN"


@dataclass(frozen=True, slots=True)
class PathPattern:
    """Paths of these levels, `+` for any; with `has_rest`, also everything below."""

    levels: tuple[str, ...]
    has_rest: bool

    @property
    def literal(self) -> str:
        """Return what every path meant begins with: the pattern up to its first `+`."""
        if ONE in self.levels:
            return "".join(f"/{level}" for level in self.levels[: self.levels.index(ONE)]) + "/"
        return "".join(f"/{level}" for level in self.levels)

    @property
    def is_literal(self) -> bool:
        """Return whether no level is a wildcard; there may still be a rest."""
        return ONE not in self.levels

    def matches(self, path: str) -> bool:
        """Return whether `path` is one of the paths meant. Plain and slow: the definition."""
        before, *found = path.split("/")
        wanted = self.levels
        is_long_enough = len(found) >= len(wanted) if self.has_rest else len(found) == len(wanted)
        return (
            not before
            and is_long_enough
            and all(
                level == asked or (asked == ONE and level != "")
                for asked, level in zip(wanted, found, strict=False)
            )
        )

    def covers(self, narrow: PathPattern) -> bool:
        """Return whether every path that `narrow` means is meant here; exact."""
        if self.has_rest:
            if len(narrow.levels) < len(self.levels):
                return False
        elif narrow.has_rest or len(narrow.levels) != len(self.levels):
            return False
        return all(wide in (ONE, level) for wide, level in zip(self.levels, narrow.levels, strict=False))

    def intersection(self, other: PathPattern) -> PathPattern | None:
        """Return the pattern of the paths that both mean; None if there are none. Exact."""
        short, long = sorted((self, other), key=lambda one: len(one.levels))
        if not short.has_rest and (len(short.levels) != len(long.levels)):
            return None
        levels: list[str] = []
        for one, another in zip(short.levels, long.levels, strict=False):
            if one != another and ONE not in (one, another):
                return None
            levels.append(another if one == ONE else one)
        levels += long.levels[len(short.levels) :]
        return PathPattern(tuple(levels), long.has_rest and short.has_rest)

    def super_topic(self, depth: int) -> PathPattern | None:
        """Return the paths, of those with `depth` levels or more, whose first ones are meant here."""
        if depth < len(self.levels) or (depth > len(self.levels) and not self.has_rest):
            return None
        return PathPattern(self.levels, has_rest=True)

    def regex(self) -> str:
        """Return a regular expression that a whole path has to match, the same in every dialect used here.

        Levels are made of letters, digits, `_`, spaces and hyphens, none of which means anything outside
        brackets. `.` has to match line breaks.
        """
        levels = "".join("/[^/]+" if level == ONE else f"/{level}" for level in self.levels)
        return f"{levels}(/.*)?" if self.has_rest else levels

    def __str__(self) -> str:
        """Return the pattern as people write it."""
        levels = "".join(f"/{level}" for level in self.levels)
        return f"{levels}/{REST}" if self.has_rest else levels


@lru_cache(maxsize=4096)
def parse_path_pattern(text: str) -> PathPattern:
    """Read a pattern such as `/news/+/sport/#`; a path without wildcards is a pattern, too."""
    if not text.startswith("/") or len(text.removesuffix(f"/{REST}")) > PATH_MAX:
        raise BadPathPattern(
            f"`{_shown(text)}` is not a topic pattern: it begins with `/`, in at most {PATH_MAX} characters"
        )
    levels = text[1:].split("/")
    has_rest = levels[-1] == REST
    if has_rest:
        levels.pop()
    if not 1 <= len(levels) <= LEVELS_MAX:
        raise BadPathPattern(
            f"`{_shown(text)}` is not a topic pattern: it names 1 to {LEVELS_MAX} levels before any `#`"
        )
    for level in levels:
        if level != ONE and not _LEVEL.fullmatch(level):
            raise BadPathPattern(
                f"`{_shown(text)}` is not a topic pattern: a level is `+`, or letters, digits, `_`, inner "
                f"spaces and hyphens of ASCII; `#` only comes last"
            )
    return PathPattern(tuple(levels), has_rest)


def levels_below(depth: int) -> PathPattern:
    """Return the pattern of all paths with at least `depth` levels."""
    return PathPattern((ONE,) * depth, has_rest=True)


def _shown(text: str) -> str:
    return text[:64].encode("unicode_escape").decode()
