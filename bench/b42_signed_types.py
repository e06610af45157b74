"""What does it cost that the frames of a type are signed, and verified at every broker?

A publisher, three brokers and a subscriber take their turns in one process (`sealed_path.py`). Ours is a type
of protection `signed`: the first broker signs what one read of a socket brought with one signature, both
others verify it, and the right that the frames name. The peer is the same type of
protection `none`, whose frames any broker on the way could have made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness import Benchmark, Case, Race, Ratio, Side, Target, at_least
from maia.wire.columns import frame_to_columns
from sealed_path import Line, Proof, Setting, side

BROKERS = 3
OF_FLOOR = Target(">=", 0.8, is_of_floor=True)
"""A signature of its own, and its check at two brokers, take longer than all the rest of a single event."""
CASES = (
    ("frames of 256, eight with one read", Setting(10, 256, together=8, characters=14), at_least(0.9)),
    ("frames of 256, each alone", Setting(10, 256, proof=Proof.EACH, characters=14), OF_FLOOR),
    ("single events, 64 with one read", Setting(10, 1, together=64, characters=14), OF_FLOOR),
    ("single events, each alone", Setting(10, 1, proof=Proof.EACH, together=8, characters=14), OF_FLOOR),
)


def cases(quick: bool) -> Iterator[Case]:
    """Yield frames and single events, signed together and one by one."""
    for what, setting, target in CASES[::2] if quick else CASES:
        plain = replace(setting, brokers=BROKERS)
        rows = setting.rows * setting.together
        yield Race(
            f"10 attributes of 14 characters, {what}",
            ours=Side(run=side(replace(plain, signed=True)), operations=rows),
            peer=Side(run=side(plain), operations=rows),
            ratio=Ratio.PEER_OVER_OURS,
            target=target,
            floor=Side(run=_floor(plain), operations=rows),
        )


def _floor(plain: Setting) -> Callable[[], object]:
    """Return one turn in the clear with hashes, signatures and checks beside it, and nothing else."""
    run_plain, columns = side(plain), frame_to_columns(Line(plain).frame)
    data = b"".join(column.data for column in columns)
    key = Ed25519PrivateKey.generate()
    public, signatures = key.public_key(), plain.together if plain.proof is Proof.EACH else 1

    def run() -> object:
        delivered = run_plain()
        for _ in range(plain.together * BROKERS):
            root = sha256(data).digest()
        for _ in range(signatures):
            signature = key.sign(root)
            for _ in range(BROKERS - 1):
                public.verify(signature, root)
        return delivered

    return run


BENCH = Benchmark(
    number=42,
    name="signed-types",
    about="throughput of a type of protection `signed`, verified at every broker, over `none`; three brokers",
    cases=cases,
    stood="1.7 ms for each event (EventGuard, 2005)",
    peer_lacks="the peer proves nothing: every broker on the way could have made its frames",
    floor="measured in each case: the same events in the clear, with their hashes at three brokers, the "
    "signature and its check at two of them beside that, and no other work",
)
