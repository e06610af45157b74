"""A simulated client, and what its broker delivered to it before the client chose what to show."""

from __future__ import annotations

from maia.events import Instant
from maia.wire.codec import decode
from maia.wire.effects import Effect, Input, Received
from maia.wire.messages import Deliver
from support.simulated_city import City, Office


class Overheard:
    """A client, and the labels of the frames that a broker delivered to it."""

    def __init__(self, client) -> None:
        self._client = client
        self.delivered: list[bytes] = []

    def start(self, now: Instant) -> list[Effect]:
        return self._client.start(now)

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        if isinstance(happened, Received) and isinstance(message := decode(happened.data), Deliver):
            self.delivered.append(message.label)
        return self._client.handle(happened, now)


def overhear(city: City, office: Office) -> Overheard:
    """Listen to all that is delivered to an office from now on."""
    overheard = city.network.host(office.name).node = Overheard(office.client)
    return overheard
