"""Which validity statements has this verifier taken in, and what is rechecked when one is new?

    statements/KEY   all that was taken in of one issuer

Brokers and key servers take statements in from validity streams, from their
domain, from a fetch, and from peers that show them. All of them go one way: a
statement that is forged or old is counted and changes nothing; a new one is
kept, and the verifier's callback is called with what it has changed, as it is when
one ends. What was kept survives a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from maia.credentials import Principal, SignedStatement
from maia.errors import BadInput, MaiaError
from maia.events import Instant
from maia.sessions.session import Session
from maia.validity import Changed, Monitor
from maia.wire.effects import Count, Effect, Keep

KEPT_STATEMENTS: Final = "statements/"
"""How the names under which statements are kept begin."""

Recheck: TypeAlias = Callable[[Changed, Instant], list[Effect]]
"""Decides again what depends on what a statement, or its end, has changed."""


class StatementIntake:
    """What one verifier has taken in on validity."""

    __slots__ = ("monitor", "shown_effects")

    def __init__(self, kept: Mapping[str, bytes]) -> None:
        """Go on with what was kept; a record that cannot be read is an error, and no start."""
        records: list[bytes] = []
        for name, data in kept.items():
            if name.startswith(KEPT_STATEMENTS):
                try:
                    records += msgspec.msgpack.decode(data, type=list[bytes])
                except msgspec.MsgspecError as problem:
                    raise BadInput("INPUT-KEPT-STATEMENTS", f"`{name}` cannot be read") from problem
        self.monitor = Monitor.reloaded(records)
        self.shown_effects: list[Effect] = []
        """What follows from what peers have shown; the node takes it with every message."""

    def take(self, statements: Iterable[SignedStatement], now: Instant, recheck: Recheck) -> list[Effect]:
        """Take statements in; `recheck` is called for each that changes something."""
        effects: list[Effect] = []
        for signed in statements:
            changed = self.monitor.receive(signed, now)
            if changed.refused is not None:
                effects.append(refused_statement(changed.refused))
            elif changed.is_news:
                effects.append(Count("maia_statements_received_total"))
            effects += recheck(changed, now) if changed else []
        return effects

    def advance(self, now: Instant, recheck: Recheck) -> list[Effect]:
        """Call `recheck` for what time alone has changed."""
        return [effect for changed in self.monitor.advance(now) for effect in recheck(changed, now)]

    def take_shown(
        self, session: Session, is_wanted: Callable[[Principal], bool], now: Instant, recheck: Recheck
    ) -> None:
        """Take in what a peer has shown, of issuers that are wanted.

        What follows is acted upon (`shown_effects`) even if the peer's own request is refused.
        """
        self.shown_effects += self.take(session.take_statements(is_wanted), now, recheck)

    def kept(self, by: Principal) -> Keep:
        """Return what keeps all that was taken in of an issuer."""
        return Keep(KEPT_STATEMENTS + by.key.hex(), msgspec.msgpack.encode(list(self.monitor.exported(by))))

    def status(self, by: Principal, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: the newest number of an issuer, and until when it is fresh."""
        return {
            "sequence": self.monitor.sequence_of(by),
            "fresh_until": str(self.monitor.fresh_until(by, now) or "") or None,
        }


def refused_statement(problem: MaiaError) -> Effect:
    """Return what counts a statement that cannot be believed."""
    return Count("maia_statements_refused_total", labels={"code": problem.code})
