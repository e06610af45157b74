"""A domain that was put back receives what it said last; what others said in its name hides nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from maia.credentials import statement_to_bytes
from maia.credentials.statements import RevocationList
from maia.domain.server.statement_stream import DomainIdentity, StatementStream
from support.access_control import MET, SMITH, Station, court, met, order, told
from support.domain_server import RecordedNotes


class Said:
    """The present state of the domain's own stream, as a broker tells it."""

    def __init__(self, *statements: object) -> None:
        self._events = [{"statement": one} for one in statements]

    async def state_known(self, *, timeout_s: float) -> bool:
        return True

    async def some(self, most: int, *, timeout_s: float) -> list[dict[str, object]]:
        events, self._events = self._events[:most], self._events[most:]
        return events

    async def unsubscribe(self) -> None:
        pass


def heard_by(station: Station, said: Said) -> RecordedNotes:
    """Let a domain hear itself before it speaks; return what its operator reads."""

    async def ask(work: object) -> object:
        return work(station.access)  # type: ignore[operator]

    async def subscribe(*_asked: object, **_how: object) -> Said:
        return said

    async def hear() -> RecordedNotes:
        notes, service = RecordedNotes(), SimpleNamespace(clock=lambda: station.now, ask=ask)
        prepared = SimpleNamespace(config=SimpleNamespace(broker_carry_s=10))
        stream = StatementStream(service, DomainIdentity(MET, None, ()), prepared, notes)  # type: ignore[arg-type]
        await stream._receive_own_stream(SimpleNamespace(subscribe=subscribe))  # type: ignore[arg-type]
        return notes

    return asyncio.run(hear())


@pytest.mark.parametrize("how", ["no statement", "forged"])
def test_a_statement_that_was_made_up_does_not_hide_the_one_behind_it(how: str) -> None:
    """A39, A82: a broker on the way can put it into the state of the stream; the revocation is accepted."""
    courts, station, copy = court(), met(), met()  # the same start: the second represents a copy of the first
    told(station, courts)
    right = station.login(SMITH.principal, [order(courts, SMITH, "42", "A")]).issued[0]
    last = statement_to_bytes(station.revoke([right.id], "appeal").statement)
    forged = last[:-3] + bytes([last[-3] ^ 1]) + last[-2:]
    made_up = {"no statement": b"(7:nothing)", "forged": forged}[how]
    notes = heard_by(copy, Said(made_up, last))
    said_now = [signed.statement for signed in copy.current_statements(copy.now)]
    assert right.id in {one for said in said_now if isinstance(said, RevocationList) for one in said.revoked}
    assert [event for event, _ in notes.notes] == ["refused"]
