"""Two nodes of one community that open statement links, with handed-in chance and time."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from maia.clock import system_now
from maia.credentials import Principal, SigningKey
from maia.credentials.identity import Identity, SignedIdentity, issue_identity
from maia.events import SECOND, AttributeUid, Instant
from maia.net.statement_links import StatementLinks
from maia.sealing.two_message import LinkIdentity, OpenLink, Request, Responder

NORWAY, UK, ANNA, BROKER, OTHER_BROKER, EVE = (SigningKey.from_seed(bytes([n]) * 32) for n in range(1, 7))
NOON = Instant.parse("2026-11-16T12:00:00Z")
COMMUNITY = "coalition.north"


def seconds(number: float, after: Instant = NOON) -> Instant:
    return Instant(after + int(number * SECOND))


def chance(seed: str) -> Callable[[int], bytes]:
    """Return random bytes that are the same each time."""
    drawn = [0]

    def random(size: int) -> bytes:
        drawn[0] += 1
        return sha256(f"{seed} {drawn[0]}".encode()).digest()[:size]

    return random


def statement(
    subject: SigningKey = ANNA,
    identifier: str = "anna@norway",
    *,
    by: SigningKey = NORWAY,
    about: Principal | None = None,
    start: Instant = NOON,
    until: Instant | None = None,
    community: str = COMMUNITY,
    clearance: int = 2,
) -> SignedIdentity:
    """Issue a statement for an hour, with two attributes."""
    attributes = {AttributeUid("nationality"): "no", AttributeUid("clearance"): clearance}
    ends = seconds(3600, start) if until is None else until
    key = subject.principal if about is None else about
    body = Identity(by.principal, community, key, identifier, attributes, start, ends, by.principal)
    return issue_identity(body, by)


def link_identity(
    key: SigningKey = ANNA,
    identifier: str = "anna@norway",
    *,
    own: SignedIdentity | None = None,
    providers: tuple[SigningKey, ...] = (NORWAY,),
    start: Instant = NOON,
) -> LinkIdentity:
    """Return a node's identity; its clock agrees with the others' to a minute."""
    stated = statement(key, identifier, start=start) if own is None else own
    return LinkIdentity(key, stated, frozenset(one.principal for one in providers))


ANNAS = link_identity()
BROKERS = link_identity(BROKER, "broker-1@norway")


def responder(started_at: Instant | None = None) -> Responder:
    """Return a responder that began an hour ago."""
    return Responder(seconds(-3600) if started_at is None else started_at)


def open_links(seed: str = "a link", now: Instant = NOON) -> tuple[OpenLink, OpenLink]:
    """Open a link, and return the requester's side and the responder's."""
    request = Request(ANNAS, BROKER.principal, now, chance(seed + " of Anna"))
    response, accepted = responder().respond(BROKERS, request.data, now, chance(seed + " of the broker"))
    return request.open(response, now), accepted


# ------------------------------------------------------------ on sockets, now


def whole_second(moment: Instant) -> Instant:
    """Return the beginning of a second: a statement says no more."""
    return Instant(moment // SECOND * SECOND)


def live_statement(
    key: SigningKey,
    *,
    by: SigningKey = NORWAY,
    from_s: float = -60,
    until_s: float = 3600,
    clearance: int = 2,
) -> SignedIdentity:
    """Issue a statement around the present moment."""
    now = whole_second(system_now())
    start, until = seconds(from_s, now), seconds(until_s, now)
    return statement(key, "somebody@norway", by=by, start=start, until=until, clearance=clearance)


def live_links(
    key: SigningKey,
    peers: dict[str, Principal] | None = None,
    *,
    own: SignedIdentity | None = None,
    clock: Callable[[], Instant] = system_now,
) -> StatementLinks:
    """Return how a node opens statement links now."""
    stated = live_statement(key) if own is None else own
    identity = link_identity(key, own=stated)
    return StatementLinks(lambda: identity, clock, peers or {})
