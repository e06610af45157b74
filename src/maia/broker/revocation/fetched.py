"""Whose word does this broker miss, and what follows when somebody has fetched it?

A broker hears statements on the network. Where an issuer has no stream there,
its process may fetch them elsewhere, at addresses that its operator named
(`validity/allowed_locations.py`). It asks here for whom, and hands over what it
got: heard as if it had come by, and only of those whose word is needed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maia.broker.revocation.streams import hear_statement
from maia.broker.state import BrokerState
from maia.credentials import SignedCertificate, SignedStatement
from maia.events import Instant
from maia.wire.effects import Effect

__all__ = ["certificates_not_vouched_for", "hear_fetched"]

_CERTIFICATES_MAX: Final = 256
"""Certificates that are named at a time: for each tester, one is enough to know where it may be."""


def certificates_not_vouched_for(state: BrokerState) -> tuple[SignedCertificate, ...]:
    """Return certificates in use that demand a word which is not at hand."""
    desk = state.statements
    missed = (voucher for voucher in desk.vouchers.values() if voucher.is_missed)
    found = {one: None for voucher in missed for one in sorted(voucher.certificates)[:_CERTIFICATES_MAX]}
    known = (desk.certificates.get(one) for one in found)
    return tuple(one for one in known if one is not None)[:_CERTIFICATES_MAX]


def hear_fetched(state: BrokerState, statements: Iterable[SignedStatement], now: Instant) -> list[Effect]:
    """Hear statements that were fetched, as far as somebody's word is needed here."""
    effects: list[Effect] = []
    for signed in statements:
        if signed.statement.by in state.statements.vouchers:
            effects += hear_statement(state, signed, now)
    return effects
