"""Which testers must confirm a member's certificates so that it gets keys, and for which request?

A key server asks before it admits a member, and again while it stays. What a
question is about is named by a digest that server and member work out alike:
these keys, for this member, from this server, in this session.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Final

from maia.canonical import write_canonical
from maia.credentials import Principal
from maia.credentials.validity.one_time import NO_ANSWERS, VouchedFor, one_time_tests
from maia.credentials.validity.validity_state import Once
from maia.events import Instant
from maia.sealing.groups.membership import Claim, Grounds, Held, evidence_for, requests_for, standing_now

_PRESENT: Final = b"join"
_PAST: Final = b"history"


def keys_digest(
    *, member: Principal, manager: Principal, type_id: bytes, session: bytes, is_past: bool
) -> bytes:
    """Return 32 bytes that name a request for keys; `session` is the key that they would be sealed to."""
    what = _PAST if is_past else _PRESENT
    asked = (b"maia/1/keys-digest", what, member.key, manager.key, type_id, session)
    return sha256(write_canonical(asked)).digest()


def demanded(
    claim: Claim, grounds: Grounds, now: Instant, *, most: int, held: Held | None = None
) -> frozenset[Once]:
    """Return which testers must confirm what so that a claim opens more than is `held`, or than without.

    None, if that would not do: what leads to no key is not asked about (A30). Of many chains, so many
    are asked about as one request may.
    """
    every = _would_do(claim, grounds, now)
    if not every:
        return NO_ANSWERS
    wanted = _chosen(_answered(claim, every, now), grounds, now, most)
    opened = standing_now(_answered(claim, wanted, now), grounds, now)
    beyond = standing_now(replace(claim, vouched=None), grounds, now) if held is None else held
    return NO_ANSWERS if opened.is_within(beyond) else wanted


def _would_do(claim: Claim, grounds: Grounds, now: Instant) -> frozenset[Once]:
    """Return whose word is all that some certificates lack."""
    problem_with = grounds.witness.problem_with
    tested = [(signed, tests) for signed in claim.pool if (tests := one_time_tests(signed))]
    return frozenset(
        one for signed, tests in tested if problem_with(signed, now, once=tests) is None for one in tests
    )


def _chosen(claim: Claim, grounds: Grounds, now: Instant, most: int) -> frozenset[Once]:
    """Return whom to ask for the first chains, as long as there is room for a whole chain more."""
    chosen = NO_ANSWERS
    for request in requests_for(claim):
        for chain in evidence_for(request, claim, grounds, now).chains:
            tests = frozenset(one for signed in chain.certificates for one in one_time_tests(signed))
            if len(chosen | tests) <= most:
                chosen |= tests
    return chosen


def _answered(claim: Claim, once: frozenset[Once], now: Instant) -> Claim:
    return replace(claim, vouched=VouchedFor(once, now, now, now) if once else None)
