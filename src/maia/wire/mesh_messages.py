"""What do the routers of a mesh say to each other, and what exactly does an origin sign?

An aggregate is a signed head and parts. A head names its parts by one digest,
so whoever passes parts on can withhold them and cannot change them. A part is
an interest with the request and certificates that prove it, or the
certificates by which the origin may connect. The signature is
over the canonical expression

    (aggregate (version 1) (network …) (origin (ed25519 KEY)) (number N) (dated MICROSECONDS)
      (parts COUNT) (digest BYTES32))
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from maia.canonical import write_canonical
from maia.credentials import NetworkName, SignedKind, SigningKey, principal_from_bytes, verify_signature
from maia.credentials.keys import principal_to_expression
from maia.errors import BrokenCredential
from maia.wire.broker_messages import SealedPart, SealedProof
from maia.wire.message_fields import (
    AnyMessage,
    Credentials,
    Digest,
    Key,
    Moment,
    Number,
    RouteKey,
    Signature,
    Small,
)
from maia.wire.names import network_to_expression

_PARTS_PER_MESSAGE: Final = 65_536
_PART_BYTES_MAX: Final = 1 << 20


class AggregateHead(AnyMessage, tag=100, frozen=True):
    """A router's aggregated subscription exists: signed, dated and numbered by its origin."""

    origin: Key
    number: Number
    dated: Moment
    parts: Number
    digest: Digest
    signature: Signature


class AggregateQuery(AnyMessage, tag=101, frozen=True):
    """Send me the parts of what you announced of this origin; `have` is the digest of those that I have."""

    origin: Key
    have: Annotated[bytes, Meta(max_length=32)]


class AggregateContent(AnyMessage, tag=102, frozen=True):
    """Parts of an aggregate, to be added to those of the digest `base`, or all of them if it is empty."""

    origin: Key
    base: Annotated[bytes, Meta(max_length=32)]
    add: Annotated[
        list[Annotated[bytes, Meta(max_length=_PART_BYTES_MAX)]], Meta(max_length=_PARTS_PER_MESSAGE)
    ]
    remove: Annotated[list[Digest], Meta(max_length=_PARTS_PER_MESSAGE)]
    more: bool


class AggregateLost(AnyMessage, tag=103, frozen=True):
    """What I announced of this origin is so no more: I have no way to it, or one that leads through you."""

    origin: Key
    number: Number


class FrameTargets(AnyMessage, tag=104, frozen=True):
    """The next frame on this link is for these routers, and not for its receiver alone.

    They are named by the first bytes of their places on the ring. `hops` is how far it may go.
    """

    routers: Annotated[
        list[Annotated[bytes, Meta(min_length=8, max_length=8)]], Meta(min_length=1, max_length=4096)
    ]
    hops: Annotated[int, Meta(ge=0, le=255)]


def sign_head(head: AggregateHead, network: NetworkName, key: SigningKey) -> bytes:
    """Return the origin's signature for a head."""
    return key.sign(SignedKind.AGGREGATE, _body(head, network))


def verify_head(head: AggregateHead, network: NetworkName) -> None:
    """Return if the origin of a head has signed it for this network; raise if not."""
    origin = principal_from_bytes(head.origin)
    verify_signature(origin, SignedKind.AGGREGATE, _body(head, network), head.signature)


def _body(head: AggregateHead, network: NetworkName) -> bytes:
    return write_canonical(
        (
            b"aggregate",
            (b"version", b"1"),
            network_to_expression(network),
            (b"origin", principal_to_expression(principal_from_bytes(head.origin))),
            (b"number", b"%d" % head.number),
            (b"dated", b"%d" % head.dated),
            (b"parts", b"%d" % head.parts),
            (b"digest", head.digest),
        )
    )


# ------------------------------------------------------------ parts


class InterestPart(AnyMessage, tag=1, frozen=True):
    """One filter of an origin's clients, with the proof of one of them; fields are those of `Wanted`."""

    key: RouteKey
    filter: Small | Annotated[list[SealedPart], Meta(max_length=64)]
    proof: Small | SealedProof | None
    credentials: Credentials
    view: Annotated[bytes, Meta(max_length=1 << 15)] = b""


class ConnectPart(AnyMessage, tag=3, frozen=True):
    """The certificates by which the origin may be a router of the network."""

    credentials: Credentials


AggregatePart: TypeAlias = InterestPart | ConnectPart

_PART_ENCODER: Final = msgspec.msgpack.Encoder()
_PART_DECODER: Final[msgspec.msgpack.Decoder[AggregatePart]] = msgspec.msgpack.Decoder(AggregatePart)


def part_to_bytes(part: AggregatePart) -> bytes:
    """Return the bytes of a part."""
    return _PART_ENCODER.encode(part)


def part_from_bytes(data: bytes) -> AggregatePart:
    """Read a part, strictly."""
    try:
        part = _PART_DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BrokenCredential(
            "CREDENTIAL-AGGREGATE-PART", "a part of an aggregate cannot be read"
        ) from problem
    if _PART_ENCODER.encode(part) != data:
        raise BrokenCredential(
            "CREDENTIAL-AGGREGATE-PART", "a part of an aggregate is not written in its one form"
        )
    return part
