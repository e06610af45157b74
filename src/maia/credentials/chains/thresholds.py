"""When have k of n agreed, and who was counted?

A threshold is a subject: its authority passes on when `needed` of its members
pass theirs on (dissertation 2.6.4). Constitutions of quorums, verifier and
search ask. No member is counted twice: not a key that is listed twice, not one
that hides behind a nested threshold, not one that two names lead to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from maia.credentials.chains.errors import BadThreshold
from maia.credentials.encoding.subjects import MEMBERS_MAX, THRESHOLD_DEPTH_MAX
from maia.credentials.principals import LocalName, Principal, Subject, Threshold

__all__ = [
    "Tries",
    "checked_threshold",
    "disjoint_choices",
    "leaves",
    "satisfied",
]

_Offer = TypeVar("_Offer")


def checked_threshold(threshold: Threshold) -> Threshold:
    """Return `threshold`, refused if it asks for the impossible or names a member twice.

    Everything recursive on thresholds runs behind this check.
    """
    seen: set[Subject] = set()
    waiting: list[tuple[Threshold, int]] = [(threshold, 1)]
    while waiting:
        here, depth = waiting.pop()
        if depth > THRESHOLD_DEPTH_MAX:
            raise BadThreshold(f"a threshold nests at most {THRESHOLD_DEPTH_MAX} levels")
        if not 1 <= here.needed <= len(here.members):
            raise BadThreshold(f"a threshold cannot ask for {here.needed} of {len(here.members)} members")
        for member in here.members:
            if isinstance(member, Threshold):
                waiting.append((member, depth + 1))
            elif member in seen:
                raise BadThreshold("a threshold names the same member twice")
            else:
                seen.add(member)
        if len(seen) + len(waiting) > MEMBERS_MAX:
            raise BadThreshold(f"a threshold has at most {MEMBERS_MAX} members, nested ones included")
    return threshold


def leaves(threshold: Threshold) -> Iterator[Principal | LocalName]:
    """Yield the members that are no thresholds themselves, nested ones included."""
    waiting: list[Subject] = [threshold]
    while waiting:
        member = waiting.pop()
        if isinstance(member, Threshold):
            waiting.extend(reversed(member.members))
        else:
            yield member


def satisfied(threshold: Threshold, agreed: Collection[Principal]) -> bool:
    """Say whether `agreed` holds enough members of a checked threshold without names.

    Such a threshold lists every key once, so counting members counts keys.
    """
    count = sum(
        satisfied(member, agreed) if isinstance(member, Threshold) else member in agreed
        for member in threshold.members
    )
    return count >= threshold.needed


@dataclass(slots=True)
class Tries:
    """How many combinations are still to be tried; when none are left, the choosing stops."""

    left: int


def disjoint_choices(
    offers: Sequence[Sequence[tuple[frozenset[Principal], _Offer]]],
    *,
    needed: int,
    besides: frozenset[Principal],
    tries: Tries,
) -> Iterator[tuple[_Offer, ...]]:
    """Yield ways to take one offer each from `needed` members, with no principal behind two of them.

    `offers[i]` is what member i can contribute: the principals behind it, and the
    contribution. No principal in `besides` may be behind any. Members are tried
    in order, so the ways come in a fixed order. There can be very many ways,
    and more tries than ways; the choosing ends when `tries` does.
    """
    chosen: list[tuple[frozenset[Principal], _Offer]] = []

    def extend(first: int) -> Iterator[tuple[_Offer, ...]]:
        if len(chosen) == needed:
            yield tuple(offer for _, offer in chosen)
            return
        # Too few members are left to reach the number: no need to look.
        for place in range(first, len(offers) - (needed - len(chosen)) + 1):
            for behind, offer in offers[place]:
                tries.left -= 1
                if tries.left < 0:
                    return
                if behind.isdisjoint(besides) and all(behind.isdisjoint(others) for others, _ in chosen):
                    chosen.append((behind, offer))
                    yield from extend(place + 1)
                    chosen.pop()

    # INVARIANT: the recursion is at most `needed` deep, and a checked threshold needs at most MEMBERS_MAX.
    return extend(0)
