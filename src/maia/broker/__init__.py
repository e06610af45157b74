"""The broker as a value: `handle(input, now) -> effects`, with access control at its edge."""

from maia.broker.node import Broker, BrokerTurn
from maia.broker.settings import BrokerLimits, BrokerSettings, RecordingSettings

__all__ = ["Broker", "BrokerLimits", "BrokerSettings", "BrokerTurn", "RecordingSettings"]
