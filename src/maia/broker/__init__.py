"""The broker as a value: `handle(input, now) -> effects`, with access control at its edge."""

from maia.broker.node import Broker
from maia.broker.settings import BadSettings, BrokerLimits, BrokerSettings, RecordingSettings

__all__ = ["BadSettings", "Broker", "BrokerLimits", "BrokerSettings", "RecordingSettings"]
