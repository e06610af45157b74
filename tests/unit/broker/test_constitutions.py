"""A broker goes forward from one constitution of a quorum to the next, and never back."""

from __future__ import annotations

import os

from maia.broker.node import Broker
from maia.broker.settings import BrokerSettings
from maia.credentials import (
    NetworkName,
    QuorumEvidence,
    SigningKey,
    Threshold,
    VerifiedConstitution,
    found_quorum,
    propose_change,
    quorum_of,
    sign_change,
    verify_constitution,
)
from maia.events import Instant
from maia.testing.refusals import raises
from maia.wire.effects import Note

NOON = Instant.parse("2026-11-15T12:00:00Z")
MET, KENT, ESSEX, SURREY, BROKER = (SigningKey.from_seed(bytes([number]) * 32) for number in range(71, 76))


def two_of(*keys: SigningKey) -> Threshold:
    return Threshold(2, tuple(key.principal for key in keys))


FOUNDING = found_quorum(two_of(MET, KENT, ESSEX), salt=b"police")
QUORUM = quorum_of(FOUNDING)
FIRST = verify_constitution(FOUNDING, quorum=QUORUM)


def changed(*members: SigningKey) -> VerifiedConstitution:
    change = sign_change(propose_change(FIRST, two_of(*members)), [MET, KENT])
    return verify_constitution(QuorumEvidence(FOUNDING.founding, (change,)), quorum=QUORUM)


SECOND, FORK = changed(MET, KENT, SURREY), changed(MET, KENT)


def notes(broker: Broker, constitution: VerifiedConstitution) -> list[str]:
    return [one.event for one in broker.adopt((constitution,), NOON) if isinstance(one, Note)]


def test_a_broker_goes_forward_and_never_back() -> None:
    """C4, A23: neither the constitution before nor another one of the same number is taken."""
    settings = BrokerSettings(NetworkName(QUORUM, "Forces"), "127.0.0.1:0", (), constitutions=(FIRST,))
    broker = Broker(BROKER, settings, random=os.urandom)
    broker.start(NOON)
    assert notes(broker, FIRST) == []
    assert notes(broker, SECOND) == ["constitutions"]
    for old in (FIRST, FORK):
        with raises("CREDENTIAL-CONSTITUTION-STALE"):
            broker.adopt((old,), NOON)
    assert notes(broker, SECOND) == []
    assert broker.adopt((), NOON) == []
