"""A broker asks its rings once for the keys of the present, and is answered as if it had asked each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations, product

from maia.broker.keys.keys import SealingKeys
from maia.broker.settings import BrokerLimits
from maia.events import SECOND, Instant
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing, KeyTerms
from maia.sealing.keys.secrets import Secret
from support.key_groups import at, key_of, random_from

TYPE = bytes(range(32))
GROUP = GroupId(TYPE)
TERMS = KeyTerms(refresh_s=100, overdue_s=20, drift_s=30, back_dating_s=10)
MOMENTS = [at(seconds) for seconds in (0, 40, 69, 70, 90, 119, 120, 121, 160, 191)]
OFFSETS = (-120, -11, -10, 0, 10, 11)


def new_ring(*, second: int = 70) -> KeyRing:
    ring = KeyRing(TYPE, TERMS)
    for number, since in ((1, 0), (2, second)):
        ring.learn(number, since=at(since))
        ring.hold(GROUP, number, Secret.fresh(random_from(b"%d" % number)))
    return ring


def _learn(ring: KeyRing) -> None:
    if ring.newest is not None and (period := ring.period(ring.newest)) is not None:
        ring.learn(ring.newest + 1, since=Instant(period[0] + 50 * SECOND))


CHANGES: dict[str, Callable[[KeyRing], object]] = {
    "an epoch begins": _learn,
    "keys are handed over": lambda ring: [
        ring.hold(GROUP, one, Secret.fresh(random_from(b"new"))) for one in ring.epochs
    ],
    "the right to a group ends": lambda ring: ring.drop(GROUP),
    "keys are too old": lambda ring: ring.forget_before(at(101)),
    "the terms change": lambda ring: ring.adopt(replace(TERMS, refresh_s=30, back_dating_s=0)),
    "all is destroyed": lambda ring: ring.wipe(),
}


def _sealed_in(ring: KeyRing, published_at: Instant, now: Instant) -> int | None:
    """Say in which epoch a frame is sealed, as the ring has it."""
    epoch = ring.sealing_epoch(now)
    while epoch is not None and ring.knows_epoch(epoch):
        if ring.opens(epoch, published_at, now):
            return epoch
        epoch -= 1
    return None


def _check(ring: KeyRing, keys: SealingKeys, published_at: Instant, now: Instant) -> None:
    found = keys.sealing_keys(TYPE, published_at, now)
    assert (None if found is None else found.epoch) == _sealed_in(ring, published_at, now)
    if found is not None:
        is_held = ring.key(GROUP, found.epoch) is not None
        assert (found.ciphers(("",), b"instance")[0] is not None) == is_held


def test_what_is_remembered_of_a_ring_is_what_it_says_whatever_has_changed():
    for first, second in permutations(CHANGES.values(), 2):
        rings = [new_ring()]
        keys = SealingKeys(
            key_of("broker"),
            random=random_from(b"instance"),
            process_id=lambda: 1,
            limits=BrokerLimits(),
            ring_of=lambda _, rings=rings: rings[0],
        )
        for change in (lambda _: None, first, second):
            change(rings[0])
            for now, offset in product(MOMENTS, OFFSETS):
                _check(rings[0], keys, Instant(now + offset * SECOND), now)
        rings[0] = new_ring(second=90)  # this broker has joined its group again
        for now, offset in product(reversed(MOMENTS), OFFSETS):
            _check(rings[0], keys, Instant(now + offset * SECOND), now)
