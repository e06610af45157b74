"""What does it cost two nodes to prove their keys to each other: two messages, or mutual TLS 1.3?

Both sides are Maia's own links, without the network between them: what one side
sends is handed to the other. A round trip is counted from the first byte of the
side that dials until the first message of the side that accepts has arrived
there; the session protocol begins with that message, on either kind of link.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator

from harness import Benchmark, Case, Figure, Race, Ratio, Side, at_most
from maia.clock import system_now
from maia.credentials import SigningKey
from maia.credentials.identity import Identity, SignedIdentity, issue_identity
from maia.events import SECOND, AttributeUid, Instant
from maia.net.tls import accepting_context, dialling_context, proved_principal
from maia.sealing.two_message import LinkIdentity, Request, Responder
from maia.wire.replays import ReplayMemory

PROVIDER, ANNA, BROKER = (SigningKey.from_seed(os.urandom(32)) for _ in range(3))
FIRST_MESSAGE = bytes(200)
"""In place of a greeting."""

Sent = tuple[str, int]
"""Which side sent how many bytes in one flight."""


def cases(quick: bool) -> Iterator[Case]:
    """Yield round trips, bytes, and processor time of both sides together."""
    del quick
    dialling, accepting = dialling_context(ANNA), accepting_context(BROKER)
    for attributes in (2, 10):
        anna, broker = _identity(ANNA, attributes), _identity(BROKER, attributes)
        ours, theirs = two_messages(anna, broker, _responder()), mutual_tls(dialling, accepting)
        if attributes == 2:
            trips = _round_trips(ours), _round_trips(theirs)
            yield Figure(
                "round trips until the first message of the accepting side",
                [trips[0] / trips[1]],
                at_most(0.5),
                note=f"ours {trips[0]}, TLS {trips[1]}; TCP's own takes one more on both sides",
            )
        sizes = _handshake_bytes(ours), _handshake_bytes(theirs)
        yield Figure(
            f"bytes of a handshake, statements with {attributes} attributes",
            [sizes[0] / sizes[1]],
            at_most(0.5),
            note=f"ours {sizes[0]} bytes, TLS {sizes[1]}",
        )
    anna, broker, responder = _identity(ANNA, 2), _identity(BROKER, 2), _responder()
    yield Race(
        "processor time of both sides",
        ours=Side(run=lambda: two_messages(anna, broker, responder)),
        peer=Side(run=lambda: mutual_tls(dialling, accepting)),
        ratio=Ratio.OURS_OVER_PEER,
        target=at_most(1.0),
    )


def two_messages(anna: LinkIdentity, broker: LinkIdentity, responder: Responder) -> list[Sent]:
    """Open a statement link and send one message; return the flights."""
    now = system_now()
    request = Request(anna, BROKER.principal, now, os.urandom)
    response, accepted = responder.respond(broker, request.data, now, os.urandom)
    first = accepted.seal(FIRST_MESSAGE)
    dialled = request.open(response, now)
    assert (dialled.principal, accepted.principal) == (BROKER.principal, ANNA.principal)
    assert dialled.feed(first) == FIRST_MESSAGE
    return [("dials", len(request.data)), ("accepts", len(response) + len(first))]


def mutual_tls(dialling: ssl.SSLContext, accepting: ssl.SSLContext) -> list[Sent]:
    """Shake hands as two of our TLS links do, and send one message; return the flights."""
    to_dialler, to_acceptor = ssl.MemoryBIO(), ssl.MemoryBIO()
    from_dialler, from_acceptor = ssl.MemoryBIO(), ssl.MemoryBIO()
    anna = dialling.wrap_bio(to_dialler, from_dialler)
    broker = accepting.wrap_bio(to_acceptor, from_acceptor, server_side=True)
    flights: list[Sent] = []

    def step(tls: ssl.SSLObject) -> bool:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    is_open = False
    while not is_open:
        step(anna)
        flights.append(("dials", to_acceptor.write(from_dialler.read())))
        is_open = step(broker)
        if is_open:
            assert proved_principal(broker) == ANNA.principal
            broker.write(FIRST_MESSAGE)
        flights.append(("accepts", to_dialler.write(from_acceptor.read())))
    assert proved_principal(anna) == BROKER.principal
    assert anna.read(len(FIRST_MESSAGE)) == FIRST_MESSAGE
    return flights


def _round_trips(flights: list[Sent]) -> int:
    return sum(side == "dials" for side, _ in flights)


def _handshake_bytes(flights: list[Sent]) -> int:
    return sum(size for _, size in flights) - len(FIRST_MESSAGE)


def _responder() -> Responder:
    # A race makes thousands of links within the window of clock skew.
    return Responder(
        Instant(system_now() - SECOND), ReplayMemory(entries_max=1 << 20, per_principal_max=1 << 20)
    )


def _identity(key: SigningKey, attributes: int) -> LinkIdentity:
    return LinkIdentity(key, _statement(key, attributes), frozenset({PROVIDER.principal}))


def _statement(key: SigningKey, attributes: int) -> SignedIdentity:
    now = Instant(system_now() // SECOND * SECOND)
    said = Identity(
        PROVIDER.principal,
        "coalition.north",
        key.principal,
        "anna@norway.example",
        {AttributeUid(f"attribute-{number}"): number for number in range(attributes)},
        Instant(now - SECOND),
        Instant(now + 3600 * SECOND),
        PROVIDER.principal,
    )
    return issue_identity(said, PROVIDER)


BENCH = Benchmark(
    number=27,
    name="handshake",
    about="two-message links against mutual TLS 1.3: round trips, bytes and processor time of a handshake",
    cases=cases,
    peer_lacks="TLS shows no attributes; it hides the certificates of both sides, and needs no clock",
    floor="an attribute of this length adds 26 bytes to each statement: from eleven attributes on each "
    "side, two messages take more than half the bytes of TLS",
)
