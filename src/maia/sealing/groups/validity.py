"""What do a member and a manager show each other so that certificates which demand it are known to count?

Statements on validity prove themselves, so the holder of a certificate brings
along those that its tests demand. What the verifier has received itself comes
first: a peer that shows an older list does not bring a revoked certificate
back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from maia.credentials import (
    BrokenChain,
    Principal,
    SignedCertificate,
    SignedStatement,
    Tester,
    ValidityState,
    Witness,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.credentials.validity.errors import CertificateNotRevalidated, CertificateStale
from maia.credentials.validity.validity_state import Once
from maia.errors import MaiaError
from maia.events import Instant
from maia.wire.framing import HANDSHAKE_BYTES_MAX
from maia.wire.messages import Show

__all__ = ["STATEMENTS_HELD_MAX", "WithShown", "held_statements", "shown_statements"]

STATEMENTS_HELD_MAX: Final = 64
"""Statements of one peer that wait for the certificates they are about; the newest of them."""


def held_statements(held: Iterable[SignedStatement], shown: Show) -> tuple[SignedStatement, ...]:
    """Return what a peer has shown so far; raise for what is no statement."""
    both = (*held, *(statement_from_bytes(data) for data in shown.statements))
    kept: list[SignedStatement] = []
    room = HANDSHAKE_BYTES_MAX
    for signed in reversed(both[-STATEMENTS_HELD_MAX:]):
        room -= len(signed.body)
        if room < 0:
            break
        kept.append(signed)
    return tuple(reversed(kept))


def shown_statements(witness: Witness | None, own: Iterable[SignedCertificate], now: Instant) -> Show | None:
    """Return the statements by which one's own certificates count; None if there are none to show."""
    if witness is None:
        return None
    found = [
        statement_to_bytes(signed)
        for by in sorted(ValidityState.testers(own), key=lambda one: one.key)
        for signed in witness.statements(by, now)
    ]
    if not found or len(found) > STATEMENTS_HELD_MAX or sum(map(len, found)) > HANDSHAKE_BYTES_MAX // 2:
        return None
    return Show(0, [], found)


class WithShown:
    """The statements received here, and where there are none, those that the peer has shown."""

    __slots__ = ("_own", "_shown")

    def __init__(self, own: Tester | None, shown: Iterable[SignedStatement], now: Instant) -> None:
        """Hear what was shown for this one time."""
        self._own: Tester = ValidityState() if own is None else own
        self._shown = ValidityState()
        for signed in shown:
            _hear(self._shown, signed, now)

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return the reason against a certificate."""
        for test in (self._shown, self._own):
            problem = test.problem_with(signed, at, once=once)
            if problem is not None and not isinstance(problem, CertificateStale | CertificateNotRevalidated):
                return problem
        if self._own.problem_with(signed, at, once=once) is None:
            return None
        return self._shown.problem_with(signed, at, once=once)


def _hear(standing: ValidityState, signed: SignedStatement, now: Instant) -> Principal | None:
    try:
        return standing.hear(signed, now).by
    except MaiaError:
        return None  # old, over or forged: of no use
