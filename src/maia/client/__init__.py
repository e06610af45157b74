"""The client as a value: its session with a broker, what it publishes and what it is subscribed to."""

from maia.client.authors import PublishedBy
from maia.client.batch import ROWS_PER_FRAME, Outbox
from maia.client.entries import KnownVersion, histories, known_version
from maia.client.errors import BrokerUnavailable, ClientClosed, RefusedByBroker, RowsRefused
from maia.client.notices import (
    Accepted,
    Acknowledged,
    Challenged,
    Changed,
    Connected,
    CredentialsAdded,
    Delivered,
    Disconnected,
    Ended,
    GapDetected,
    Notice,
    PutOff,
    RightEnds,
    StateKnown,
    TypeReceived,
    Warned,
    Withdrawn,
)
from maia.client.session import ClientSession
from maia.client.settings import ClientSettings
from maia.client.wallet import Wallet

__all__ = [
    "ROWS_PER_FRAME",
    "BrokerUnavailable",
    "Challenged",
    "Changed",
    "ClientClosed",
    "ClientSession",
    "ClientSettings",
    "Connected",
    "Delivered",
    "Disconnected",
    "Ended",
    "KnownVersion",
    "GapDetected",
    "Outbox",
    "Notice",
    "PublishedBy",
    "PutOff",
    "RightEnds",
    "RefusedByBroker",
    "RowsRefused",
    "CredentialsAdded",
    "Accepted",
    "StateKnown",
    "Acknowledged",
    "TypeReceived",
    "Wallet",
    "Warned",
    "Withdrawn",
    "histories",
    "known_version",
]
