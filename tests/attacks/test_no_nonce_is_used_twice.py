"""Can two things ever be sealed under one key and one nonce?

One repeated nonce gives away two plaintexts and lets anybody forge. The
dissertation takes nonces from a clock (section 7.5); ours are counted.
"""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import SigningKey
from maia.sealing import Publication, Sealer, SealerWornOut
from maia.sealing.associated import nonce
from maia.sealing.ciphers import EpochKeys
from maia.sealing.sealer import COUNTER_MAX
from maia.types import SealingLevel
from maia.wire.messages import SealMark
from support.sealing import BROKER, NOON, PUBLISHER, STREAM, Publishing, keys, numbered, plates, sealer

EVENTS = 10_000_000
ROWS_PER_FRAME = 4096


def _sealers(seed: bytes) -> Iterator[Sealer]:
    """Yield processes of one broker: each a restart, a twin with the same key, or the other's child."""
    for process in count(1):
        yield Sealer(BROKER, random=numbered(seed + b"%d" % process), process_id=lambda at=process: at)


def test_ten_million_events_of_many_processes_never_share_a_key_and_a_nonce():
    """A45: a counter under keys of each process; every seal of every attribute has a pair of its own."""
    frames = -(-EVENTS // ROWS_PER_FRAME)
    processes = [next(_sealers(b"%d" % twin)) for twin in range(64)]
    marks = [processes[number % 64].next_mark() for number in range(frames)]
    assert len({(mark.instance, nonce(mark)) for mark in marks}) == frames
    assert len({mark.instance for mark in marks}) == 64


def test_ten_million_single_events_of_one_process_count_up_by_one():
    """A45: whatever was counted so far, the next number is one that no seal has had."""
    process = sealer()
    first = process.next_mark()
    step = EVENTS // 2_000
    for sealed_so_far in range(0, EVENTS, step):
        process._counter = first.counter + sealed_so_far
        numbers = [process.next_mark().counter for _ in range(3)]
        assert numbers == [first.counter + sealed_so_far + more for more in (1, 2, 3)]


@given(st.lists(st.sampled_from(["seal", "restart", "fork", "twin", "clock step back"]), max_size=40))
def test_no_history_of_restarts_and_forks_repeats_a_mark(history):
    """A45: restart, fork, two brokers with one identity, and clocks that step back."""
    seeds, process_ids = count(), {"now": 1}
    here = [_started(next(seeds), process_ids)]
    marks = []
    for step in history:
        if step == "restart":
            here = [_started(next(seeds), process_ids), *here[1:]]
        elif step == "twin":
            here.append(_started(next(seeds), process_ids))
        elif step == "fork":
            marks += [one.next_mark() for one in here]  # the parent goes on
            process_ids["now"] += 1  # and what was inherited runs as somebody else
        marks += [one.next_mark() for one in here]
    pairs = [(mark.instance, nonce(mark)) for mark in marks]
    assert len(set(pairs)) == len(pairs)


def _started(seed: int, process_ids: dict[str, int]) -> Sealer:
    return Sealer(BROKER, random=numbered(b"start %d" % seed), process_id=lambda: process_ids["now"])


def test_a_forked_process_seals_under_another_instance():
    """A45: a real fork; parent and child seal the next frame, and share no key."""
    process = Sealer(BROKER, random=os.urandom, process_id=os.getpid)
    before = process.next_mark()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        mark = process.next_mark()
        os.write(writing, mark.instance + nonce(mark))
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reading, 64)
    os.close(reading)
    os.close(writing)
    after = process.next_mark()
    assert after == SealMark(before.instance, before.counter + 1)
    assert told[:16] != before.instance


def test_processes_derive_different_keys_from_one_content_key():
    """A45: two instances seal the same words at the same number, and the bytes have nothing in common."""
    here, there = sealer(seed=b"here"), sealer(seed=b"there")
    frame = plates(1)
    one, other = Publishing(by=here).seal(frame), Publishing(by=there).seal(frame)
    assert one.origin.counter == other.origin.counter
    ciphers = [keys().cipher(None, process.next_mark().instance) for process in (here, there)]
    sealed = [cipher.encrypt(bytes(12), b"the same words", b"") for cipher in ciphers if cipher]
    assert len(set(sealed)) == 2


def test_columns_of_one_frame_share_a_nonce_and_no_key():
    """A45: one number seals a whole frame, because every attribute has a key of its own."""
    mark = sealer().next_mark()
    member: EpochKeys = keys()
    uids = [None, "plate", "place", "seen"]
    ciphers = [member.cipher(uid, mark.instance) for uid in uids]
    assert len({cipher.encrypt(nonce(mark), bytes(32), b"") for cipher in ciphers if cipher}) == len(uids)


def test_two_events_of_one_millisecond_have_different_nonces():
    """A45: no clock takes part, so that one which stands still or steps back changes nothing."""
    process, member = sealer(), keys()
    about = Publication(PUBLISHER, STREAM, 1, NOON, 1)
    frames = [process.seal([], about, keys=member, level=SealingLevel.EVENT) for _ in range(100)]
    assert len({nonce(frame.origin) for frame in frames}) == 100
    assert len({frame.columns[0].sealed for frame in frames}) == 100


def test_a_process_stops_before_its_counter_comes_round():
    """A45: the last number is used once, and nothing is sealed after it."""
    process = sealer()
    process._counter = COUNTER_MAX - 1
    assert process.next_mark().counter == COUNTER_MAX
    for _ in range(2):
        with pytest.raises(SealerWornOut):
            process.next_mark()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_counts_is_never_copied(copied):
    """A45: a copy would count the same numbers under the same keys."""
    with pytest.raises(TypeError):
        copied(Sealer(SigningKey.from_seed(bytes(range(32))), random=os.urandom, process_id=os.getpid))
