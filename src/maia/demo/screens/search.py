"""What could the broker in the middle see, and would the search have found it?

All that two brokers received and kept is searched for everything that was
written: at the one that has no rights nothing may be found, and at the one
that may read the words, each of them must be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maia.demo.carriage import Carriage
    from maia.demo.screens.shared import Demonstration

__all__ = ["Searched", "searched"]


@dataclass(frozen=True, slots=True)
class Searched:
    """What the broker in the middle could see, and what CCS's broker could."""

    carrier: Carriage
    reader: Carriage

    def broken_claims(self) -> Iterator[str]:
        """Say what the broker in the middle saw that it must not see, or why the search proves nothing."""
        yield from self.carrier.broken_claims()
        missed = self.carrier.looked_for - len(self.reader.found)
        if missed:
            yield f"{missed} of the words that were looked for were not found where they are"


def searched(demo: Demonstration) -> Searched:
    """Search what two brokers received and kept for everything that was written."""
    from maia.demo.carriage import carriage_of, words_to_look_for
    from maia.demo.carriers import CARRIER
    from maia.types import validity_type_id

    words = words_to_look_for(demo.story, demo.live.expected.written)
    brokers, public = demo.nodes.brokers, {validity_type_id(demo.nodes.story.principal("Met"))}
    carrier, reader = (
        carriage_of(name, brokers[name].folder, words, public=public) for name in (CARRIER, "CCS broker")
    )
    return Searched(carrier, reader)
