"""Topics by enumeration: slow, obvious, and right in a small world of paths.

A world has every path up to some depth over a few level names, one of which
no pattern names. A pattern with `+` and `#` means the paths that a person
would tick off with a pencil; everything else is a set of ticked paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product

NAMES = ("a", "b", "other")
DEPTH = 4

WORLD: tuple[str, ...] = tuple(
    "/" + "/".join(names) for depth in range(1, DEPTH + 1) for names in product(NAMES, repeat=depth)
)


@cache
def meant(pattern: str) -> frozenset[str]:
    """Return the paths of the world that a pattern means."""
    return frozenset(path for path in WORLD if _is_meant(pattern.split("/")[1:], path.split("/")[1:]))


def _is_meant(wanted: list[str], found: list[str]) -> bool:
    if wanted == ["#"]:
        return True  # the level before it, and everything below
    if not wanted or not found:
        return wanted == found
    return wanted[0] in ("+", found[0]) and _is_meant(wanted[1:], found[1:])


def super_topics(path: str) -> list[str]:
    """Return a topic and every topic above it."""
    names = path.split("/")[1:]
    return ["/" + "/".join(names[:depth]) for depth in range(1, len(names) + 1)]


def publishable(patterns: Iterable[str]) -> frozenset[str]:
    """Return where a publisher with these rights may publish: it needs the topic and all above it."""
    granted = frozenset().union(*map(meant, patterns))
    return frozenset(path for path in WORLD if granted.issuperset(super_topics(path)))
