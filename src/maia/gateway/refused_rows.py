"""Which of these events did the broker refuse, if it said only how many?

Messages travel in frames, and a broker counts the rows of a frame that lie outside the publisher's right. The
gateway holds the same certificates and asks the same kernel which rows these are. The answer explains, and
permits nothing: where the numbers differ, there is none.
"""

from __future__ import annotations

from collections.abc import Iterable

from maia.broker.publication.publisher_view import shaper_of
from maia.credentials import ASSUMED_GOOD, Action, Principal, SignedCertificate, VerifiedConstitution
from maia.errors import MaiaError
from maia.events import Column, Frame, Instant
from maia.gateway.topic_table import Columns
from maia.policy import NO_FACTS, Denial, Request, decide, gather_evidence
from maia.types import VerifiedType
from maia.types.definition import tree_root


def refused_rows(  # noqa: PLR0913, PLR0917 - what the broker knew
    rows: int,
    columns: Columns,
    refused: int,
    event_type: VerifiedType,
    publisher: Principal,
    certificates: Iterable[SignedCertificate],
    constitutions: tuple[VerifiedConstitution, ...],
    now: Instant,
) -> frozenset[int] | None:
    """Return which events were refused; None if that cannot be told from the number."""
    if refused == rows:
        return frozenset(range(rows))
    request = Request(publisher, Action.PUBLISH, event_type.name, event_type)
    nulls = (None,) * rows
    frame = Frame(
        rows,
        {one.uid: Column(one.kind, tuple(columns.get(one.name, nulls))) for one in event_type.attributes},
    )
    try:
        evidence = gather_evidence(
            request, tuple(certificates), at=now, constitutions=constitutions, standing=ASSUMED_GOOD
        )
        decision = decide(request, evidence, NO_FACTS, now)
        if isinstance(decision, Denial):
            return None
        shaped = shaper_of(decision.view, tree_root(event_type.name.name)).shape(frame)
    except MaiaError:
        return None
    outside = frozenset(range(rows)) - frozenset(shaped.rows)
    return outside if shaped.refused == refused else None
