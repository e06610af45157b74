"""Up to where has a broker looked through its log? Its own word, whoever passes it on.

An answer to `FetchLog` may come over several brokers. By its place an asker decides what it never asks for
again, so the place is signed by the broker whose log it is in: for one request, so for one type and asker.
The signature is over the canonical expression

    (log-place (version 1) (network …) (broker (ed25519 KEY)) (log BYTES16) (position N) (end N)
      (whole 1 or 0) (request BYTES16) (settled BYTES32) (put-back 1 or 0))

where the last one is the digest of what is settled, as it travels.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec
from msgspec.structs import replace

from maia.canonical import write_canonical
from maia.credentials import NetworkName, SignedKind, SigningKey, principal_from_bytes, verify_signature
from maia.credentials.keys import principal_to_expression
from maia.wire.broker_messages import LogFetched
from maia.wire.names import network_to_expression


def signed_place(answer: LogFetched, network: NetworkName, key: SigningKey) -> LogFetched:
    """Return an answer with the signature of the broker whose place is in it."""
    return replace(answer, signature=key.sign(SignedKind.LOG_PLACE, _body(answer, network)))


def verify_place(answer: LogFetched, network: NetworkName) -> None:
    """Return if the broker whose place is in an answer has said so, to this request; raise if not."""
    broker = principal_from_bytes(answer.place.broker)
    verify_signature(broker, SignedKind.LOG_PLACE, _body(answer, network), answer.signature)


def _body(answer: LogFetched, network: NetworkName) -> bytes:
    place = answer.place
    return write_canonical(
        (
            b"log-place",
            (b"version", b"1"),
            network_to_expression(network),
            (b"broker", principal_to_expression(principal_from_bytes(place.broker))),
            (b"log", place.log),
            (b"position", b"%d" % place.position),
            (b"end", b"%d" % answer.end),
            (b"whole", b"%d" % answer.is_whole),
            (b"request", answer.id),
            (b"settled", sha256(msgspec.msgpack.encode(answer.settled)).digest()),
            (b"put-back", b"%d" % answer.was_put_back),
        )
    )
