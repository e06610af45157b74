"""What does sealing cost between brokers that may all read the events?

Figure 7.9 of the dissertation: an authorised broker hands ciphertext and the
plaintext of all attributes to the next one, which need not open anything.
Events are sealed outside the clock. The first cases measure the broker in the
middle, which received both and passes both on. The others go on to the
subscriber: the last broker reads the plaintext and checks it against what the
publisher's broker signed, which the dissertation does not do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from harness import Benchmark, Case, Race, Ratio, Side, at_most
from maia.types import SealingLevel
from maia.wire.codec import decode
from maia.wire.messages import SealedWithPlaintext
from sealed_path import Line, Setting

ATTRIBUTES = (1, 5, 10, 15, 20, 25)
TOGETHER = 8
TARGET = 1.01


def cases(quick: bool) -> Iterator[Case]:
    """Yield the hop at every number of attributes, then the way to the subscriber, then single events."""
    for attributes in (1, 25) if quick else ATTRIBUTES:
        yield _case("one hop", attributes, 256, to_the_end=False)
    for attributes in (1, 25):
        yield _case("one hop", attributes, 1, to_the_end=False)
        yield _case("hop and delivery", attributes, 256, to_the_end=True)


def _case(what: str, attributes: int, rows: int, *, to_the_end: bool) -> Race:
    plural = "s" if attributes > 1 else ""
    events = f"frames of {rows}" if rows > 1 else "single events"
    return Race(
        f"{attributes} attribute{plural}, {events}, {what}, {TOGETHER} a read",
        ours=side(attributes, rows, SealingLevel.ATTRIBUTE, to_the_end=to_the_end),
        peer=side(attributes, rows, None, to_the_end=to_the_end),
        ratio=Ratio.OURS_OVER_PEER,
        target=at_most(TARGET),
    )


def side(
    attributes: int,
    rows: int,
    level: SealingLevel | None,
    *,
    to_the_end: bool,
    together: int = TOGETHER,
) -> Side:
    """Return what happens to frames that were published and sealed before the clock started."""
    setting = Setting(attributes, rows, level, together=together, brokers=3, share_plaintext=True)
    line = Line(setting)
    _see_that_plaintext_travels(line)

    def fresh(count: int) -> Sequence[list[bytes]]:
        return [line.row.at_first([line.publish() for _ in range(together)]) for _ in range(count)]

    def one_hop(arrived: list[bytes]) -> object:
        return line.row.at_hop(1, arrived)

    def all_the_way(arrived: list[bytes]) -> object:
        return [line.receive(data) for data in line.row.at_last(line.row.at_hop(1, arrived))]

    run: Callable[[list[bytes]], object] = all_the_way if to_the_end else one_hop
    return Side(run=run, prepare=fresh, operations=rows * together)


def _see_that_plaintext_travels(line: Line) -> None:
    sent = line.row.at_hop(1, line.row.at_first([line.publish()]))
    if line.setting.level is not None:
        message = decode(sent[0])
        assert isinstance(message, SealedWithPlaintext)
        is_whole = line.setting.level is SealingLevel.EVENT
        assert len(message.contents) == (1 if is_whole else line.setting.attributes)
    assert [line.receive(data) for data in line.row.at_last(sent)] == [line.frame]


BENCH = Benchmark(
    number=7,
    name="plaintext-cache",
    about="sealed with plaintext beside it over plaintext alone, between brokers that may read; texts of 30",
    cases=cases,
    stood="1.037 with 1 attribute and 1.025 with 25 (dissertation, section 7.7.2)",
    peer_lacks="the peer is our own path in the clear, in one process and without TLS, which would cost "
    "the sealed side twice as much: it carries twice the bytes",
)
