"""What waits at a broker for somebody's word that was asked for just for it?

Requests, what stands and is to be vouched for anew, and clients that say
hello. They wait at a `OneTimePending` (`maia.wire.one_time_pending`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from maia.broker.settings import BrokerLimits
from maia.credentials import SignedCertificate
from maia.wire.messages import Advertise, Hello, Subscribe, SubscribeDurable
from maia.wire.one_time_pending import OneTimeLimits, OneTimePending
from maia.wire.requests import EdgeRequest

__all__ = ["CONNECTING", "BrokersDesk", "Held", "HeldEntry", "HeldHello", "HeldRequest", "one_time_desk"]


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """A request that is decided when it is vouched for; its signature and its moment were checked."""

    message: Advertise | Subscribe | SubscribeDurable = field(repr=False)
    asked: EdgeRequest = field(repr=False)


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """Something that stands, and is to be authorised anew from these certificates."""

    pool: tuple[SignedCertificate, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class HeldHello:
    """A client that is welcomed when its right to connect is vouched for."""

    message: Hello = field(repr=False)


CONNECTING: Final = -1
"""The reference that stands for the connection itself: none that a client could give to a request."""


Held: TypeAlias = HeldRequest | HeldEntry | HeldHello
BrokersDesk: TypeAlias = OneTimePending[Held]


def one_time_desk(limits: BrokerLimits) -> BrokersDesk:
    """Return a desk at which nothing waits yet."""
    return OneTimePending(
        OneTimeLimits(
            limits.one_time_s,
            limits.one_time_questions,
            limits.one_time_questions_per_request,
            limits.one_time_requests_per_principal,
        )
    )
