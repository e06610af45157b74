"""What is true at this moment, beside the certificates and the event?

A certificate may grant under a condition: the doctor is on duty, the camera
is in service. Facts are the values such conditions are asked of. A broker
keeps them fresh from events, Spark joins them, PostgreSQL queries them; here
they are values that cannot change. A fact that is missing is unknown, and an
unknown condition grants nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from maia.events import AttributeUid, PresentValue, Value, attribute_uid, checked_value, kind_of
from maia.predicates.meaning import admits
from maia.predicates.syntax import Predicate

__all__ = ["NO_FACTS", "Facts"]


class Facts(Mapping[AttributeUid, PresentValue]):
    """Some facts by uid, checked once and never changed; nulls are left out."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[AttributeUid, Value] | None = None) -> None:
        """Copy and check `values`: later changes to the mapping do not reach a decision."""
        self._values: Final = {
            attribute_uid(uid): value
            for uid, given in (values or {}).items()
            if given is not None and (value := checked_value(given, kind_of(given))) is not None
        }

    def __getitem__(self, uid: AttributeUid) -> PresentValue:
        """Return one fact."""
        return self._values[uid]

    def __iter__(self) -> Iterator[AttributeUid]:
        """Yield the uids of the facts."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many facts there are."""
        return len(self._values)

    def satisfy(self, condition: Predicate) -> bool:
        """Say whether a condition holds; unknown is no."""
        return admits(condition, self._values)


NO_FACTS: Final = Facts()
"""Nothing is known: only certificates without condition grant anything."""
