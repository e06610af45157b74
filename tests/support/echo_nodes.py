"""The smallest nodes there are, to try the simulated runtime with: they talk, echo and write things down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from maia.credentials import SigningKey
from maia.events import Instant
from maia.testing.simulation import Simulation
from maia.wire.effects import Dial, Effect, Input, Keep, LinkId, LinkOpened, Received, Send, WakeAt


class EchoNode:
    """Dials whom it is told to, keeps the number of its lives, and answers each message with itself."""

    def __init__(self, kept: Mapping[str, bytes], *, dials: Sequence[str] = (), answers: bool = True) -> None:
        self.lives = int(kept.get("lives", b"0")) + 1
        self.dials, self.answers = dials, answers
        self.happened: list[tuple[Instant, Input]] = []

    def start(self, _now: Instant) -> list[Effect]:
        return [Keep("lives", b"%d" % self.lives), *map(Dial, self.dials)]

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        self.happened.append((now, happened))
        if isinstance(happened, Received) and self.answers:
            return [Send(happened.link, happened.data)]
        return []

    @property
    def heard(self) -> list[bytes]:
        return [happened.data for _, happened in self.happened if isinstance(happened, Received)]

    @property
    def link(self) -> LinkId:
        return next(one.link for _, one in reversed(self.happened) if isinstance(one, LinkOpened))

    def kinds(self) -> list[str]:
        return [type(happened).__name__ for _, happened in self.happened]

    def say(self, *words: bytes) -> Callable[[Instant], Sequence[Effect]]:
        return lambda _now: [Send(self.link, word) for word in words]

    def wake_at(self, *moments: int) -> Callable[[Instant], Sequence[Effect]]:
        return lambda _now: [WakeAt(Instant(moment)) for moment in moments]


def add_echo(
    network: Simulation,
    name: str,
    *,
    dials: Sequence[str] = (),
    answers: bool = False,
    skew_s: float = 0.0,
) -> Callable[[], EchoNode]:
    """Add a node at the address of its name; the answer returns it as it is in its present life."""
    nodes: list[EchoNode] = []

    def build(kept: Mapping[str, bytes], _random: Callable[[int], bytes]) -> EchoNode:
        nodes.append(EchoNode(kept, dials=dials, answers=answers))
        return nodes[-1]

    key = SigningKey.from_seed(name.encode().ljust(32, b"."))
    network.add_node(name, key.principal, build, address=name, skew_s=skew_s)
    return lambda: nodes[-1]
