"""How much of the plaintext throughput is left when frames travel sealed?

Figure 7.8 of the dissertation, in frames: one to twenty-five attributes of 30
characters, in the clear, sealed as a whole, and sealed attribute by attribute.
The path is the one of `sealed_path.py`, from publisher to subscriber through
two real brokers. Cases that say nothing of signing leave the proof out on both
sides; what it costs is a case of its own here, and benchmark 15.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import Benchmark, Case, Race, Ratio, Side, Target, at_least
from maia.types import SealingLevel
from sealed_path import Proof, Setting, floor, side

ATTRIBUTES = (1, 5, 10, 15, 20, 25)
CORNERS = (1, 10, 25)
TOGETHER = 8


def cases(quick: bool) -> Iterator[Case]:
    """Yield attribute level at every number of attributes, then event level, larger frames and signatures."""
    for attributes in CORNERS if quick else ATTRIBUTES:
        yield _case("attribute level", Setting(attributes, 256, SealingLevel.ATTRIBUTE, Proof.NONE))
    for attributes in CORNERS:
        yield _case("event level", Setting(attributes, 256, SealingLevel.EVENT, Proof.NONE))
        yield _case("attribute level", Setting(attributes, 1024, SealingLevel.ATTRIBUTE, Proof.NONE))
        signed = Setting(attributes, 256, SealingLevel.ATTRIBUTE, Proof.TOGETHER, TOGETHER)
        yield _case(f"attribute level, {TOGETHER} frames signed together", signed)


def _case(what: str, setting: Setting) -> Race:
    plain = Setting(setting.attributes, setting.rows, together=setting.together)
    plural = "s" if setting.attributes > 1 else ""
    return Race(
        f"{setting.attributes} attribute{plural}, frames of {setting.rows}, {what}",
        ours=Side(run=side(setting), operations=setting.rows * setting.together),
        peer=Side(run=side(plain), operations=setting.rows * setting.together),
        ratio=Ratio.PEER_OVER_OURS,
        target=_target(setting.attributes),
        floor=Side(run=floor(setting), operations=setting.rows * setting.together),
    )


def _target(attributes: int) -> Target:
    if attributes == 1:
        return at_least(0.9)
    return at_least(0.85) if attributes <= 10 else at_least(0.8)


BENCH = Benchmark(
    number=5,
    name="sealed-frames",
    about="sealed over plaintext throughput, publisher to subscriber through two brokers, texts of 30",
    cases=cases,
    stood="46 % with 1 attribute, 11.7 % with 10: attribute level, single events (dissertation 7.7.1)",
    peer_lacks="the peer is our own path in the clear; both run in one process and without TLS, which would "
    "add the same to either",
    floor="measured in each case: the same frames in the clear, with the ciphers (and where they are signed, "
    "the hashes, the signature and its check) beside them and no other work. There the ciphers run in a loop;"
    " between other things their code runs cold: the first call of a frame takes 21 µs where others take 6.6",
)
