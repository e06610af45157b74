"""Can two things ever be sealed under one key and one nonce?

One repeated nonce gives away two plaintexts and lets any peer forge. The
dissertation takes nonces from a clock (section 7.5); ours are counted.
"""

from __future__ import annotations

import copy
import os
import pickle
from itertools import count
from operator import lt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import SigningKey
from maia.events import Frame
from maia.net.process import process_id
from maia.sealing import Publication, Sealer
from maia.sealing.frames.ciphers import EpochKeys, nonce
from maia.sealing.frames.sealer import COUNTER_MAX
from maia.testing.refusals import raises
from maia.types import SealingLevel
from maia.wire.messages import SealMark
from support.random_cases import usually
from support.sealing import (
    BROKER,
    NOON,
    PUBLISHER,
    STREAM,
    Publishing,
    keys,
    next_mark,
    numbered,
    plates,
    read,
    seal_one,
    sealer,
)

EVENTS = usually(1_000_000, laws=10_000_000)
PROCESSES = 8
AT_ONCE = 5_000


@pytest.mark.laws
def test_millions_of_events_of_several_processes_never_share_a_key_and_a_nonce():
    """A45: every event is a frame of its own, so that many nonces are compared, ten million by `make laws`.

    A frame of many events takes one. The processes are restarts, twins with one key, or forks:
    each has keys of its own, and under them its nonces go up and never back.
    """
    instances, made = set(), 0
    for twin in range(PROCESSES):
        process = Sealer(BROKER, random=numbered(b"%d" % twin), process_id=lambda at=twin: at)
        last = b""
        for _ in range(EVENTS // PROCESSES // AT_ONCE):
            marks = [mark for _ in range(AT_ONCE // 5) for mark in process.next_marks(5)]
            nonces = [last, *map(nonce, marks)]
            assert all(map(lt, nonces, nonces[1:]))
            (instance,) = {mark.instance for mark in marks}
            instances.add((twin, instance))
            last, made = nonces[-1], made + len(marks)
    assert made == EVENTS
    assert len(instances) == len({instance for _, instance in instances}) == PROCESSES


@pytest.mark.parametrize("bits", [8, 16, 24, 31, 32, 33, 40, 47])
def test_a_nonce_holds_the_whole_counter(bits):
    """A45: far beyond ten million, where a number needs another bit or byte."""
    process = sealer()
    process._counter = (1 << bits) - 3
    nonces = [nonce(SealMark(process.instance, 1)), *(nonce(next_mark(process)) for _ in range(6))]
    assert all(map(lt, nonces, nonces[1:]))


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
            marks += [next_mark(one) for one in here]  # the parent goes on
            process_ids["now"] += 1  # and what was inherited runs as another peer
        marks += [next_mark(one) for one in here]
    pairs = [(mark.instance, nonce(mark)) for mark in marks]
    assert len(set(pairs)) == len(pairs)


def _started(seed: int, process_ids: dict[str, int]) -> Sealer:
    return Sealer(BROKER, random=numbered(b"start %d" % seed), process_id=lambda: process_ids["now"])


@pytest.mark.parametrize("number", [os.getpid, process_id], ids=["kernel", "broker"])
def test_a_forked_process_seals_under_another_instance(number):
    """A45: a real fork; parent and child seal the next frame, and share no key."""
    process = Sealer(BROKER, random=os.urandom, process_id=number)
    before = next_mark(process)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        mark = next_mark(process)
        os.write(writing, mark.instance + nonce(mark))
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reading, 64)
    os.close(reading)
    os.close(writing)
    after = next_mark(process)
    assert after == SealMark(before.instance, before.counter + 1)
    assert told[:16] != before.instance


def test_processes_derive_different_keys_from_one_content_key():
    """A45: two instances seal the same words at the same number, and the bytes have nothing in common."""
    here, there = sealer(seed=b"here"), sealer(seed=b"there")
    frame = plates(1)
    one, other = Publishing(by=here).seal(frame), Publishing(by=there).seal(frame)
    assert one.mark.counter == other.mark.counter
    ciphers = [keys().ciphers(("",), next_mark(process).instance)[0] for process in (here, there)]
    sealed = [cipher.encrypt(bytes(12), b"the same words", b"") for cipher in ciphers if cipher]
    assert len(set(sealed)) == 2


@pytest.mark.parametrize("rows", [1, 3])
def test_what_a_forked_process_seals_first_is_sealed_under_its_own_keys(rows):
    """A45: its keys were looked up before it was forked, and the frame opens under the mark that it has."""
    process_ids = {"now": 1}
    process = _started(0, process_ids)
    before = Publishing(by=process).seal(plates(rows))
    process_ids["now"] = 2
    after = Publishing(by=process).seal(plates(rows))
    assert before.mark.instance != after.mark.instance
    assert read(after).signer == BROKER.principal


def test_columns_of_one_frame_share_a_nonce_and_no_key():
    """A45: one number seals a whole frame, because every attribute has a key of its own."""
    mark = next_mark(sealer())
    member: EpochKeys = keys()
    uids = [None, "plate", "place", "seen"]
    ciphers = member.ciphers(tuple(uid or "" for uid in uids), mark.instance)
    assert len({cipher.encrypt(nonce(mark), bytes(32), b"") for cipher in ciphers if cipher}) == len(uids)


def test_two_events_of_one_millisecond_have_different_nonces():
    """A45: no clock takes part, so that one which stands still or steps back changes nothing."""
    process, member = sealer(), keys()
    about = Publication(PUBLISHER, STREAM, 1, NOON, 1)
    frames = [seal_one(process, about, Frame(1, {}), member, SealingLevel.EVENT) for _ in range(100)]
    assert len({nonce(frame.mark) for frame in frames}) == 100
    assert len({frame.columns[0].sealed for frame in frames}) == 100


def test_a_process_stops_before_its_counter_comes_round():
    """A45: the last number is used once, and nothing is sealed after it."""
    process = sealer()
    process._counter = COUNTER_MAX - 1
    assert next_mark(process).counter == COUNTER_MAX
    for _ in range(2):
        with raises("SEALING-WORN-OUT"):
            next_mark(process)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_counts_is_never_copied(copied):
    """A45: a copy would count the same numbers under the same keys."""
    with pytest.raises(TypeError):
        copied(Sealer(SigningKey.from_seed(bytes(range(32))), random=os.urandom, process_id=os.getpid))
