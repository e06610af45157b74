"""How much of the plaintext throughput is left when single events travel sealed?

The paper's own setting: every event is a frame of its own. Under load, several
arrive with one read of a socket. They share a signature and, sealed as in the
clear, nearly all that is done for them but ciphers and hashes. An event that
comes alone shares nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import Benchmark, Case, Race, Ratio, Side, Target, at_least
from maia.types import SealingLevel
from sealed_path import Proof, Setting, floor, side

ATTRIBUTES = (1, 5, 10, 25)
TOGETHER = 64
TARGET = 0.5
OF_FLOOR = Target(">=", 0.8, is_of_floor=True)
"""A signature of its own costs more than all the rest of an event: half of plain is beyond any program."""


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
        target=OF_FLOOR if setting.proof is Proof.EACH else at_least(TARGET),
        floor=Side(run=floor(setting), operations=setting.together),
    )


BENCH = Benchmark(
    number=6,
    name="sealed-events",
    about="sealed over plaintext throughput for single events, publisher to subscriber through two brokers",
    cases=cases,
    stood="46 % with 1 attribute and 11.7 % with 10, attribute level (dissertation, section 7.7.1)",
    peer_lacks="the peer is our own path in the clear, in one process and without TLS on either side",
    floor="measured in each case: the same events in the clear, with the ciphers (and where they are signed, "
    "the hashes, the signature and its check) beside them and no other work. A signature takes 41 µs to make "
    "and 130 µs to check, which an event that comes alone has to itself. The rest is Python: a sealed "
    "frame's message has 18 fields, and is read and written at either end",
)
