"""What does sealing cost between brokers that may all read the events?

Figure 7.9 of the dissertation: an authorised broker hands ciphertext and the
plaintext of all attributes to the next one, which need not open anything.
Events are sealed outside the clock. Measured is the broker in the middle, which
received both and passes both on. The whole way to the subscriber, where the
last broker checks the plaintext against what the publisher's broker signed, is
the figure's own case: `figure_7_9.py` measures it.
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
    """Yield the hop at every number of attributes, then with single events."""
    for attributes in (1, 25) if quick else ATTRIBUTES:
        yield _case(attributes, 256)
    for attributes in (1, 25):
        yield _case(attributes, 1)


def _case(attributes: int, rows: int) -> Race:
    plural = "s" if attributes > 1 else ""
    events = f"frames of {rows}" if rows > 1 else "single events"
    return Race(
        f"{attributes} attribute{plural}, {events}, one hop, {TOGETHER} a read",
        ours=side(attributes, rows, SealingLevel.ATTRIBUTE, to_the_end=False),
        peer=side(attributes, rows, None, to_the_end=False),
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
    about="sealed with plaintext beside it over plaintext alone, at one broker between others that may read; "
    "texts of 30. The whole way is [figure 7.9](figures.md#figure-79-plaintext-beside-the-ciphertext)",
    cases=cases,
    stood="1.037 with 1 attribute and 1.025 with 25 (dissertation, section 7.7.2)",
    peer_lacks="the peer is our own path in the clear, in one process and without TLS, which would cost "
    "the sealed side twice as much: it carries twice the bytes",
)
