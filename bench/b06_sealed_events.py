"""How much of the plaintext throughput is left when single events travel sealed?

The paper's own setting: every event is a frame of its own. Under load, several
arrive with one read of a socket, and may share a signature; an event that
comes alone has one to itself. In the clear, events of one read share nearly
all that is done for them (`publication/batches.py`); sealed ones share the signature.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import Benchmark, Case, Race, Ratio, Side, at_least
from maia.types import SealingLevel
from sealed_path import Proof, Setting, side

ATTRIBUTES = (1, 5, 10, 25)
TOGETHER = 64
TARGET = 0.4


def cases(quick: bool) -> Iterator[Case]:
    """Yield both levels without a proof, then attribute level with either kind of signature."""
    for attributes in (1, 10) if quick else ATTRIBUTES:
        for level in (SealingLevel.ATTRIBUTE, SealingLevel.EVENT):
            yield _case(f"{level.value} level", Setting(attributes, 1, level, Proof.NONE, TOGETHER))
        for proof in (Proof.TOGETHER, Proof.EACH):
            setting = Setting(attributes, 1, SealingLevel.ATTRIBUTE, proof, TOGETHER)
            yield _case(f"attribute level, {proof.value}", setting)


def _case(what: str, setting: Setting) -> Race:
    # Like with like: an event that comes alone is compared with one that comes alone in the clear.
    plain = Setting(setting.attributes, 1, proof=setting.proof, together=setting.together)
    plural = "s" if setting.attributes > 1 else ""
    return Race(
        f"{setting.attributes} attribute{plural}, single events, {what}",
        ours=Side(run=side(setting), operations=setting.together),
        peer=Side(run=side(plain), operations=setting.together),
        ratio=Ratio.PEER_OVER_OURS,
        target=at_least(TARGET),
    )


BENCH = Benchmark(
    number=6,
    name="sealed-events",
    about="sealed over plaintext throughput for single events, publisher to subscriber through two brokers",
    cases=cases,
    stood="46 % with 1 attribute and 11.7 % with 10, attribute level (dissertation, section 7.7.1)",
    peer_lacks="the peer is our own path in the clear, in one process and without TLS on either side",
    plot=True,
    floor="AES-GCM takes 1.2 µs for a single value at either end, SHA-256 1 µs, a signature 41 µs to make and"
    " 130 µs to check: 171 µs for an event with a signature to itself, 2.7 µs where 64 share one. An event in"
    " the clear that comes with others takes about 37 µs in all with 1 attribute and 93 µs with 10, so that"
    " ciphers and a shared signature alone would leave 0.8; Python around them, event by event, leaves far"
    " less. Sealed events have become faster too, and those in the clear several times as fast",
)
