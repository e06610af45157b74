"""The client as a value: its session with a broker, what it publishes and what it is subscribed to."""

from maia.client.authors import PublishedBy
from maia.client.batch import ROWS_PER_FRAME, Outbox
from maia.client.entries import KnownVersion, histories, known_version
from maia.client.errors import (
    BrokerNotTrusted,
    BrokerUnavailable,
    ClientClosed,
    NotConnected,
    RefusedByBroker,
    RowsRefused,
    UnknownToClient,
    WrongBroker,
)
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
    StateKnown,
    TypeReceived,
    Warned,
    Withdrawn,
)
from maia.client.session import ClientSession
from maia.client.settings import BadClientSettings, ClientSettings
from maia.client.wallet import Wallet

__all__ = [
    "ROWS_PER_FRAME",
    "BadClientSettings",
    "BrokerNotTrusted",
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
    "NotConnected",
    "Outbox",
    "Notice",
    "PublishedBy",
    "PutOff",
    "RefusedByBroker",
    "RowsRefused",
    "CredentialsAdded",
    "Accepted",
    "StateKnown",
    "Acknowledged",
    "TypeReceived",
    "UnknownToClient",
    "Wallet",
    "Warned",
    "Withdrawn",
    "WrongBroker",
    "histories",
    "known_version",
]
