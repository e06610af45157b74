"""Why was it decided so, and who may know?

Every decision explains itself: which certificate, which field, which
attribute, which rule. There are two audiences. The owner of the policy reads
everything, nearest misses included. The requester reads what it may learn:
never a literal of a restriction, never an attribute that is hidden from it,
never another principal's certificate (docs/decisions/two-audiences.md). The two
texts are written apart from each other, so nothing has to be cut out of one
to make the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from maia.events import AttributeUid

__all__ = ["Audience", "Explanation", "Reason", "for_both", "for_owner"]

SENTENCE_MAX: Final = 1000
_SHOWN_ID_DIGITS: Final = 12
_NO_NAMES: Final[Mapping[AttributeUid, str]] = {}


class Audience(Enum):
    """Who reads an explanation."""

    OWNER = "owner"
    REQUESTER = "requester"


@dataclass(frozen=True, slots=True)
class Reason:
    """One step of a decision: a rule that held or failed, and where it is written."""

    rule: str
    sentence: str
    certificate: bytes | None = None
    field: str | None = None
    attribute: AttributeUid | None = None

    def __post_init__(self) -> None:
        """Shorten a sentence that quotes a very long literal."""
        if len(self.sentence) > SENTENCE_MAX:
            object.__setattr__(self, "sentence", self.sentence[: SENTENCE_MAX - 1] + "…")

    def line(self, names: Mapping[AttributeUid, str] = _NO_NAMES) -> str:
        """Return the reason for people: the sentence, then where to look; attributes as `names` call them."""
        places = [
            f"certificate {self.certificate.hex()[:_SHOWN_ID_DIGITS]}" if self.certificate else "",
            f"field {self.field}" if self.field else "",
            f"attribute {names.get(self.attribute, self.attribute)}" if self.attribute else "",
        ]
        where = ", ".join(place for place in places if place)
        return f"{self.sentence} ({where})" if where else self.sentence

    def record(self) -> dict[str, str]:
        """Return the reason for programs: named fields, those that say nothing left out."""
        fields = {
            "rule": self.rule,
            "sentence": self.sentence,
            "certificate": self.certificate.hex() if self.certificate else None,
            "field": self.field,
            "attribute": self.attribute,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons for a decision, once for each audience."""

    # Kept out of repr: a decision that is logged or printed by accident shows the requester's list only.
    owner: tuple[Reason, ...] = field(default=(), repr=False)
    requester: tuple[Reason, ...] = ()

    def __add__(self, other: Explanation) -> Explanation:
        """Return the reasons of both, in order."""
        return Explanation(self.owner + other.owner, self.requester + other.requester)

    def reasons(self, audience: Audience) -> tuple[Reason, ...]:
        """Return what `audience` may read."""
        return self.owner if audience is Audience.OWNER else self.requester

    def lines(self, audience: Audience, names: Mapping[AttributeUid, str] = _NO_NAMES) -> tuple[str, ...]:
        """Return the reasons as lines for people, who call attributes by `names`."""
        return tuple(reason.line(names) for reason in self.reasons(audience))

    def records(self, audience: Audience) -> list[dict[str, str]]:
        """Return the reasons as named fields for programs."""
        return [reason.record() for reason in self.reasons(audience)]


def for_both(reason: Reason) -> Explanation:
    """Explain to both audiences in the same words."""
    return Explanation(owner=(reason,), requester=(reason,))


def for_owner(reason: Reason, *, instead: Reason | None = None) -> Explanation:
    """Explain to the owner alone; the requester reads `instead`, or nothing."""
    return Explanation(owner=(reason,), requester=() if instead is None else (instead,))
