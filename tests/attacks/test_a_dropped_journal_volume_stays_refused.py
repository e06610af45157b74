"""A restart and a clock that steps back together bring no request back (A65, A78)."""

from __future__ import annotations

import pytest

from maia.broker.rights.replay_journal import ReplayJournal
from maia.broker.settings import BrokerLimits
from maia.broker.turn import Turn
from maia.errors import Refusal
from maia.events import Instant
from maia.wire.effects import Keep, LinkId
from maia.wire.requests import verify_request
from support.wire import NETWORK, NOON, signed

SECOND = 1_000_000
SKEW_S = 60
VOLUME = 64


def later(seconds: int) -> Instant:
    return Instant(NOON + seconds * SECOND)


def hear(journal: ReplayJournal, kept: dict[str, bytes], *, at: int, nonce: int) -> None:
    """Hear a request that was signed, and arrives, so many seconds after noon."""
    request = signed(at=later(at), nonce=nonce.to_bytes(16, "big"))
    verify_request(
        request, at=later(at), skew_s=SKEW_S, memory=journal.memory, network=NETWORK, peer=request.signer
    )
    turn = Turn(later(at))
    journal.write(LinkId(1), request, later(at - SKEW_S), turn)
    for effect in turn.part():
        assert isinstance(effect, Keep)
        kept.pop(effect.name, None) if effect.data is None else kept.update({effect.name: effect.data})


def test_what_a_dropped_volume_knew_is_refused_after_a_restart_with_an_earlier_clock():
    """A65, A78: a full volume was dropped; the broker restarts and its clock has lost 70 seconds."""
    journal, kept = ReplayJournal(BrokerLimits()), dict[str, bytes]()
    for nonce in range(VOLUME):
        hear(journal, kept, at=0, nonce=nonce)
    hear(journal, kept, at=50, nonce=1000)
    hear(journal, kept, at=100, nonce=1001)
    assert len(kept) == 1

    restarted = ReplayJournal(BrokerLimits())
    restarted.reload(kept, Turn(later(100)), latest=later(160))
    old = signed(at=later(0), nonce=(5).to_bytes(16, "big"))
    with pytest.raises(Refusal) as refused:
        verify_request(
            old, at=later(30), skew_s=SKEW_S, memory=restarted.memory, network=NETWORK, peer=old.signer
        )
    assert refused.value.code == "REQUEST-STALE"
