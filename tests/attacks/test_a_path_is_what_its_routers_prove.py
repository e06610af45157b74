"""A112: a router claims a level for a neighbour, hides one, replays an old path: it counts as unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from maia.credentials import SigningKey
from maia.credentials.identity import TPM_ATTRIBUTE, Identity, IdentityTrust, issue_identity, pack_identity
from maia.credentials.paths import HOP_S, Hop, Stream, VerifiedPath, add_hop, path_attributes, verify_path
from maia.credentials.requirements import is_met, parse_requirement
from maia.errors import BrokenCredential
from maia.events import SECOND, Instant
from maia.testing.refusals import raises

NOW = Instant.parse("2026-11-18T09:00:00Z")
PROVIDER, STRANGER = SigningKey.from_seed(b"p" * 32), SigningKey.from_seed(b"s" * 32)
FIRST, WEAK, LAST, EDGE = (SigningKey.from_seed(bytes([number]) * 32) for number in range(1, 5))
TRUST = IdentityTrust("city", frozenset({PROVIDER.principal}))
STREAM = Stream(b"P" * 32, b"s" * 16)
LEVELS = {FIRST: 2, WEAK: 0, LAST: 3}


def stated(key: SigningKey, level: int, *, by: SigningKey = PROVIDER, until_s: int = 900) -> bytes:
    ends = Instant(NOW + until_s * SECOND)
    since, who = Instant(NOW - SECOND), by.principal
    said = Identity(who, "city", key.principal, "router", {TPM_ATTRIBUTE: level}, since, ends, who)
    return pack_identity(issue_identity(said, by))


def path(*routers: SigningKey, to: SigningKey = EDGE, now: Instant = NOW) -> tuple[Hop, ...]:
    hops: tuple[Hop, ...] = ()
    for one, then in zip(routers, (*routers[1:], to), strict=True):
        hops = add_hop(hops, STREAM, one, then.principal, stated(one, LEVELS[one]), now=now)
    return hops


def verified(hops: Sequence[Hop], *, sender: SigningKey = LAST, now: Instant = NOW) -> VerifiedPath:
    trusted = {"trust": TRUST, "now": now}
    return verify_path(hops, STREAM, sender=sender.principal, to=EDGE.principal, **trusted)


def meets(requirement: str, found: VerifiedPath) -> bool:
    return is_met(parse_requirement(requirement), path_attributes(found.stated))


def test_the_trust_of_a_path_is_that_of_its_routers() -> None:
    """I12: the lowest level, the product of what each is trusted, and how many there are."""
    good, weak = verified(path(FIRST, LAST)), verified(path(FIRST, WEAK, LAST))
    assert meets("path_level == 2 and path_routers == 2 and path_providers == 1", good)
    assert meets("path_trust > 0.98 and path_trust < 0.99", good)
    assert meets("path_level == 0 and path_routers == 3 and path_trust == 0.0", weak)
    assert not meets("path_level >= 1", weak)


def test_a_level_for_a_neighbour_is_its_providers_to_state() -> None:
    """A112: of a stranger, of another key, with another level, none: worth nothing."""
    hops = path(FIRST, WEAK, LAST)
    claims = (
        stated(WEAK, 9, by=STRANGER),
        stated(LAST, 9),
        stated(FIRST, 9),
        stated(WEAK, 2)[:-1] + b"x",
        b"",
        b"no statement",
    )
    for claim in claims:
        claimed = (hops[0], replace(hops[1], statement=claim), hops[2])
        assert not meets("path_level >= 1", verified(claimed))


def test_a_router_that_is_left_out_leaves_a_gap() -> None:
    """A112: the weak one in the middle, the first, itself; in another order; of another stream."""
    hops = path(FIRST, WEAK, LAST)
    by_last = path(LAST)
    alone = path(FIRST, WEAK)
    lies = {
        "the middle one": (hops[0], hops[2]),
        "all before the last": hops[2:],
        "itself": (alone[:1], WEAK),
        "in another order": (hops[1], hops[0], hops[2]),
        "spliced": (hops[0], by_last[0]),
        "twice": (*hops, hops[2]),
    }
    for what, lie in lies.items():
        shown, sender = (lie[0], lie[1]) if what == "itself" else (lie, LAST)
        with pytest.raises(BrokenCredential):
            pytest.fail(f"{what}: {verified(shown, sender=sender)}")
    with raises("CREDENTIAL-PATH"):
        verified(path(FIRST, LAST), sender=FIRST)
    other = Stream(b"Q" * 32, STREAM.label)
    with pytest.raises(BrokenCredential):
        verify_path(path(FIRST, LAST), other, sender=LAST.principal, to=EDGE.principal, trust=TRUST, now=NOW)
    with pytest.raises(BrokenCredential):  # it was handed to another router
        verify_path(path(FIRST, LAST), STREAM, sender=LAST.principal, to=WEAK.principal, trust=TRUST, now=NOW)


def test_an_old_path_and_an_old_statement_are_over() -> None:
    """A112: replayed after minutes, or said ahead; a level that was stated for a time that is over."""
    hops = path(FIRST, LAST)
    with raises("CREDENTIAL-PATH"):
        verified(hops, now=Instant(NOW + HOP_S * SECOND))
    with raises("CREDENTIAL-PATH"):
        verified(path(FIRST, LAST, now=Instant(NOW + 3 * HOP_S * SECOND)))
    later = Instant(NOW + 800 * SECOND)
    fresh = add_hop((), STREAM, LAST, EDGE.principal, stated(LAST, 3, until_s=700), now=later)
    assert not meets("path_level >= 1", verified(fresh, now=later))
    assert verified(path(LAST)).until == NOW + HOP_S * SECOND
