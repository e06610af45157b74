"""What is true at this moment, beside the certificates and the event?

A certificate may grant under a condition: the doctor is on duty, the camera
is in service, it is Monday morning. Facts are the values such conditions are
asked of. A broker keeps them fresh from events, Spark joins them, PostgreSQL
queries them; here they are values that cannot change. A fact that is missing
is unknown, and an unknown condition grants nothing.

Who asserts that a principal is on duty? What the verifier knows by itself holds for
every certificate; what a principal has asserted holds for the certificates
that this principal has issued, and for no others. The time is known from the
clock, and no issuer can assert another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from maia.credentials.principals import Principal
from maia.events import AttributeUid, Instant, PresentValue, Value, attribute_uid, checked_value, kind_of
from maia.policy.clock_facts import clock_facts
from maia.predicates.meaning import admits
from maia.predicates.syntax import ALWAYS, Exists, Predicate, atoms

__all__ = ["NO_FACTS", "Facts"]

_NOBODY: Final[Mapping[Principal, Mapping[AttributeUid, Value]]] = {}


class Facts(Mapping[AttributeUid, PresentValue]):
    """Some facts by uid, checked once and never changed; nulls are left out.

    As a mapping it holds what the verifier knows by itself.
    """

    __slots__ = ("_asserted", "_values")

    def __init__(
        self,
        values: Mapping[AttributeUid, Value] | None = None,
        *,
        asserted: Mapping[Principal, Mapping[AttributeUid, Value]] = _NOBODY,
    ) -> None:
        """Copy and check both: later changes to the mappings do not reach a decision."""
        self._values: Final = _checked(values or {})
        self._asserted: Final = {by: _checked(facts) for by, facts in asserted.items()}

    def __getitem__(self, uid: AttributeUid) -> PresentValue:
        """Return one fact."""
        return self._values[uid]

    def __iter__(self) -> Iterator[AttributeUid]:
        """Yield the uids of the facts."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many facts there are."""
        return len(self._values)

    def satisfy(self, condition: Predicate, *, of: Principal | None, now: Instant) -> bool:
        """Say whether a condition holds that the issuer `of` has set; unknown is no."""
        if condition == ALWAYS:
            return True
        said = self._asserted.get(of, {}) if of is not None else {}
        known = said | self._values | clock_facts(condition, now)
        # Of an event, absence can be seen. Of a fact it cannot: withholding the statement would grant.
        if any(isinstance(atom, Exists) and atom.uid not in known for atom in atoms(condition)):
            return False
        return admits(condition, known)


def _checked(values: Mapping[AttributeUid, Value]) -> dict[AttributeUid, PresentValue]:
    return {
        attribute_uid(uid): value
        for uid, given in values.items()
        if given is not None and (value := checked_value(given, kind_of(given))) is not None
    }


NO_FACTS: Final = Facts()
"""Nothing is known: only certificates without condition grant anything."""
