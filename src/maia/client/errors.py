"""Which errors does a client's application get?

What a broker refused is raised with the broker's own code, so that a program
matches on one code wherever the decision fell.
"""

from __future__ import annotations

import re

from maia.errors import BadInput, MaiaError, Refusal, Unavailable
from maia.sessions.challenges import QuestionNotOurs

__all__ = [
    "BadDurableName",
    "BrokerUnavailable",
    "ClientClosed",
    "ConnectionRefused",
    "QuestionNotOurs",
    "RefusedByBroker",
    "CANNOT_SEAL",
    "KEY_SERVER_AWAY",
    "ElsewhereServed",
    "RowsRefused",
    "check_durable_name",
    "is_passing",
    "told_by_broker",
]

_PASSING = "UNAVAILABLE-"
LOG_FULL = "UNAVAILABLE-LOG-FULL"
KEY_SERVER_AWAY = "UNAVAILABLE-KEY-SERVER"
CANNOT_SEAL = frozenset({"UNAVAILABLE-NO-KEYS", KEY_SERVER_AWAY, "UNAVAILABLE-KEYS-AWAITED"})
"""Why a broker takes no frame of a sealed type on: an operator has to act, or a key server to come back."""


class RefusedByBroker(Refusal):
    """A broker said no; `code` is the broker's own."""

    code = "REFUSED-BY-BROKER"


class ConnectionRefused(RefusedByBroker):
    """The certificates that a client showed, or has, do not let it connect; `code` is the reason's own."""

    code = "REFUSED-CONNECTION"


class BrokerUnavailable(Unavailable):
    """A broker cannot do now what it was asked for; `code` is the broker's own."""

    code = "UNAVAILABLE-BROKER"


class ClientClosed(Unavailable):
    """The client was closed, or the publisher or subscription withdrawn, while a call waited for it."""

    code = "UNAVAILABLE-CLIENT-CLOSED"


class ElsewhereServed(Unavailable):
    """Another process of the broker serves the type now; what was asked for is to be asked for there."""

    code = "UNAVAILABLE-SERVED-ELSEWHERE"

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(f"the process of the broker at `{address}` serves this type: ask there")


class RowsRefused(Refusal):
    """Some events lay outside what their publisher may publish, and were not sent on."""

    code = "REFUSED-ROWS"

    def __init__(self, refused_rows: int) -> None:
        self.refused_rows = refused_rows
        super().__init__(f"{refused_rows} events lay outside what you may publish, and were not sent on")


class BadDurableName(BadInput):
    """The name of a durable subscription is not 1 to 128 visible ASCII characters."""

    code = "INPUT-DURABLE-NAME"


def check_durable_name(name: str | None) -> None:
    """Refuse a name that no broker would read."""
    if name is not None and re.fullmatch("[!-~]{1,128}", name) is None:
        shown = ascii(name[:64])[1:-1]
        raise BadDurableName(f"`{shown}` cannot name a durable subscription: 1 to 128 visible characters")


def told_by_broker(code: str, message: str) -> MaiaError:
    """Return what a broker said as an error of the family that its code belongs to."""
    return (BrokerUnavailable if is_passing(code) else RefusedByBroker)(code, message)


def is_passing(code: str) -> bool:
    """Return whether the same request may succeed later without a change by the user."""
    return code.startswith(_PASSING)
