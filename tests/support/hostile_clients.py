"""Somebody who has recorded all that a client ever said, holds its key, and says it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from maia.events import Instant
from maia.wire.codec import decode, encode
from maia.wire.effects import Dial, Effect, Input, LinkId, Received, Send
from maia.wire.messages import (
    Accepted,
    Advertise,
    Ended,
    Failed,
    Greeting,
    Hello,
    Message,
    Subscribe,
    Welcome,
)
from support.simulated_city import City


class Parrot:
    """Listens to one client of a city, and repeats it to a broker of its choice."""

    def __init__(self, city: City, name: str) -> None:
        """Listen to the client at the host `name` from now on."""
        self.hello: Hello | None = None
        self.heard_requests: list[Message] = []
        self.was_accepted = False
        """Whether the client was told that something it asked for stands."""
        self._city, self._name, self._numbers = city, name, 0
        host = city.network.host(name)
        client = host.node
        host.node = _Overheard(client, self._listen)

    def _listen(self, data: bytes) -> None:
        message = decode(data)
        if isinstance(message, Hello):
            self.hello = message
        if isinstance(message, Subscribe | Advertise):
            self.heard_requests.append(message)
        if isinstance(message, Accepted):
            self.was_accepted = True

    def repeat_everything(self, *, broker: int) -> set[str]:
        """Say it all again over a new link; return the codes of the answers, `ACCEPTED` for a success.

        Somebody who has not overheard the handshake has nothing to say.
        """
        if self.hello is None:
            return set()
        self._numbers += 1
        answers: list[str] = []
        principal = self._city.network.host(self._name).principal

        def build(_kept: Mapping[str, bytes], _random: Callable[[int], bytes]) -> _Repeater:
            return _Repeater(self._city.addresses[broker], self, answers)

        self._city.network.add_node(f"parrot {self._numbers}", principal, build)
        self._city.network.run_for(3)
        return set(answers)


class _Overheard:
    """A client and somebody who reads along."""

    def __init__(self, client, listen: Callable[[bytes], None]) -> None:
        self._client, self._listen = client, listen

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        effects = self._client.handle(happened, now)
        if isinstance(happened, Received):
            self._listen(happened.data)
        for effect in effects:
            if isinstance(effect, Send):
                self._listen(effect.data)
        return effects


class _Repeater:
    """Shakes hands as the client did, and then repeats its requests as they were."""

    def __init__(self, address: str, parrot: Parrot, answers: list[str]) -> None:
        self._address, self._parrot, self._answers = address, parrot, answers

    def start(self, _now: Instant) -> list[Effect]:
        return [Dial(self._address)]

    def handle(self, happened: Input, _now: Instant) -> list[Effect]:
        return self._said(happened.link, decode(happened.data)) if isinstance(happened, Received) else []

    def _said(self, link: LinkId, message: Message) -> list[Effect]:
        match message:
            case Greeting():
                return [Send(link, encode(self._parrot.hello))]
            case Welcome():
                return [Send(link, encode(one)) for one in self._parrot.heard_requests]
            case Accepted():
                self._answers.append("ACCEPTED")
            case Failed(code=code) | Ended(code=code):
                self._answers.append(code)
        return []
