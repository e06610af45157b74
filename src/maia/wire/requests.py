"""What did a client ask for, was it really this client, and is it asking now?

A request to publish or to subscribe is one signed expression:

    (signed
      (request (version 1) (action publish | subscribe)
        (network (owner OWNER) (name NAME))
        (type (owner OWNER) (name NAME) (version VERSION))
        (requires PREDICATE)?
        (filter PREDICATE) (stream BYTES16) (at MICROSECONDS) (nonce BYTES16))
      (signer (ed25519 KEY))
      (signature ed25519 BYTES))

`requires` is what a subscriber asks of publishers, or a publisher of subscribers
unless a publication says otherwise; without it, nothing is asked. The edge
broker verifies the request against the key that the link has proved and the
replay memory. Other brokers verify the same bytes as proof of an interest that
is on its way to them. What was signed is what is decided upon.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Final, final
from weakref import WeakValueDictionary

from maia.canonical import Limits, SExpression, write_canonical
from maia.canonical.fields import Part, bare, number, octets, one, record, word_of
from maia.credentials import (
    Action,
    NetworkName,
    Principal,
    SignedKind,
    SigningKey,
    TypeName,
    principal_from_bytes,
    verify_signature,
)
from maia.credentials.documents import Document
from maia.credentials.keys import KEY_BYTES, SIGNATURE_BYTES
from maia.credentials.proof import Proof
from maia.credentials.requirements import NO_REQUIREMENT, checked_requirement
from maia.errors import BadInput, BrokenCredential, ProtocolViolation, Refusal
from maia.events import INSTANT_MAX, INSTANT_MIN, SECOND, Instant, stated_uid
from maia.predicates import (
    DEPTH_MAX,
    Predicate,
    checked_size,
    predicate_from_expression,
    predicate_to_expression,
)
from maia.wire.names import (
    network_from_expression,
    network_to_expression,
    type_from_expression,
    type_to_expression,
)
from maia.wire.replays import NONCE_BYTES, ReplayMemory

REQUEST_BYTES_MAX: Final = 1 << 16
STREAM_BYTES: Final = 16

_SEAL: Final = object()

# A moment of our days has sixteen digits, so nearly every request ends in as many bytes as any other.
_A_NONCE: Final = b"n" * NONCE_BYTES
_A_SIGNATURE: Final = b"s" * SIGNATURE_BYTES
_AN_ENDING: Final = (
    b"(2:at16:1000000000000000)(5:nonce16:%b))(6:signer(7:ed2551932:%b))(9:signature7:ed2551964:%b))"
) % (_A_NONCE, b"k" * KEY_BYTES, _A_SIGNATURE)
_ENDING_BYTES: Final = len(_AN_ENDING)
_ENDING: Final = re.compile(
    rb"\(2:at16:([1-9][0-9]{15})\)\(5:nonce16:(.{16})\)\)"
    rb"\(6:signer\(7:ed2551932:(.{32})\)\)\(9:signature7:ed2551964:(.{64})\)\)",
    re.DOTALL,
)
_BODY_FROM: Final = len(b"(6:signed")
_BODY_TO: Final = _ENDING_BYTES - _AN_ENDING.index(b"(6:signer")
_HEADS_REMEMBERED: Final = 256
_HEAD_MAX: Final = 2048
"""Longer ones are read anew each time: what is remembered stays below one megabyte."""


_CLOCKS: Final = ": the clock of the signer or of the broker is wrong"


class BadRequestEncoding(ProtocolViolation):
    """Bytes are not a signed request as Maia writes it."""

    code = "PROTOCOL-REQUEST"


@dataclass(frozen=True, slots=True)
class EdgeRequest:
    """What a client asks of the network: to publish or to subscribe, to which events of which type.

    `stream` names the client's stream of publications, or its subscription.
    `requires` is about the other side: of a subscription, about publishers.
    """

    action: Action
    network: NetworkName
    event_type: TypeName
    filter: Predicate
    stream: bytes
    at: Instant
    nonce: bytes
    requires: Predicate = NO_REQUIREMENT


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request, who is said to have signed it, and the exact bytes; nothing here is verified."""

    request: EdgeRequest
    signer: Principal
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)


@final
@dataclass(frozen=True, slots=True)
class VerifiedRequest(Proof):
    """A request whose signature, network and moment hold. Only the two verifiers below make one."""

    signed: SignedRequest
    # Not a field: `dataclasses.replace` therefore cannot carry it over to an altered copy.
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifiers."""
        if seal is not _SEAL:
            raise TypeError("only verify_request and verify_proof make a VerifiedRequest")

    @property
    def request(self) -> EdgeRequest:
        """Return what is asked."""
        return self.signed.request

    @property
    def signer(self) -> Principal:
        """Return who asks."""
        return self.signed.signer


# ------------------------------------------------------------ signing, writing, reading


def sign_request(request: EdgeRequest, key: SigningKey) -> SignedRequest:
    """Sign a request; refuse one that could not be read back as it was meant."""
    try:
        return REQUEST.sign(request, key)
    except (BadInput, BadRequestEncoding) as problem:
        raise BadInput("INPUT-UNSIGNABLE-REQUEST", problem.message) from problem


def request_from_bytes(data: bytes) -> SignedRequest:
    """Read exactly what `request_to_bytes` writes; the signature is not verified here."""
    ending = _ENDING.fullmatch(data, max(0, len(data) - _ENDING_BYTES))
    if ending is None or ending.start() > _HEAD_MAX:
        return REQUEST.read_in_full(data)
    # Requests of one client for one thing differ in their ending alone, so the rest is read once.
    at, nonce, signer, signature = ending.groups()
    request = replace(_read_head(data[: ending.start()]), at=moment_of_request(at), nonce=nonce)
    return SignedRequest(request, _signer(signer), data[_BODY_FROM:-_BODY_TO], signature)


@lru_cache(maxsize=_HEADS_REMEMBERED)
def _read_head(head: bytes) -> EdgeRequest:
    """Read a request up to its moment, strictly; it means the same whatever ending of this length follows."""
    read = REQUEST.read_in_full(head + _AN_ENDING)
    if (read.request.nonce, read.signature) != (_A_NONCE, _A_SIGNATURE):
        raise BadRequestEncoding("the request does not end as a request does")
    return read.request


def _signer(key: bytes) -> Principal:
    try:
        return principal_from_bytes(key)
    except BrokenCredential as problem:
        raise BadRequestEncoding(f"the request cannot be read: {problem.message}") from problem


def moment_of_request(digits: SExpression, kind: type[ProtocolViolation] = BadRequestEncoding) -> Instant:
    """Read when a request was made; refuse, as this kind, what is no number of microseconds."""
    wrong = (kind, "the moment of a request is a number of microseconds in years 1 to 9999")
    return Instant(number(INSTANT_MIN, INSTANT_MAX, wrong).read(digits))


_WRONG: Final = (BadRequestEncoding, "a field of the request is missing, unknown, repeated or out of order")


REQUEST: Final = Document[EdgeRequest, SignedRequest](
    record(
        b"request",
        EdgeRequest,
        _WRONG,
        version_of="request format",
        action=one(word_of((Action.PUBLISH, Action.SUBSCRIBE), *_WRONG)),
        network=bare(Part(network_to_expression, network_from_expression)),
        event_type=bare(Part(type_to_expression, type_from_expression)),
        # Before the filter: requests of one client for one type often require the same.
        requires=one(
            Part(
                lambda predicate: predicate_to_expression(checked_requirement(predicate)),
                lambda expression: checked_requirement(predicate_from_expression(expression, stated_uid)),
            ),
            left_out=NO_REQUIREMENT,
        ),
        filter=one(
            Part(
                lambda predicate: predicate_to_expression(checked_size(predicate)), predicate_from_expression
            )
        ),
        stream=one(octets(STREAM_BYTES, STREAM_BYTES, _WRONG)),
        at=one(Part(lambda at: b"%d" % at, moment_of_request)),
        nonce=one(octets(NONCE_BYTES, NONCE_BYTES, _WRONG)),
    ),
    "request",
    BadRequestEncoding,
    # `signed`, `request` and `filter` lie around the predicate; a literal is one list deeper than its test.
    Limits(size_max=REQUEST_BYTES_MAX, depth_max=DEPTH_MAX + 5, atom_max=REQUEST_BYTES_MAX),
    lambda _: SignedKind.REQUEST,
    lambda said, body, signature, signer: SignedRequest(said, signer, body, signature),
    wraps=(BadInput, BrokenCredential),
    names_signer=True,
)

request_to_bytes = REQUEST.to_bytes


# ------------------------------------------------------------ verifying


def verify_request(
    signed: SignedRequest,
    *,
    at: Instant,
    skew_s: int,
    memory: ReplayMemory,
    network: NetworkName,
    peer: Principal,
) -> VerifiedRequest:
    """Verify a request that `peer` makes now, over a link on which it has proved its key.

    A request that is accepted is remembered: the same bytes are refused from
    then on. One that is refused leaves the memory as it was.
    """
    request, skew = signed.request, _skew(skew_s)
    if signed.signer != peer:
        raise Refusal(
            "REQUEST-ANOTHER-PRINCIPAL", f"`{signed.signer}` signed the request, and `{peer}` made it"
        )
    _check_network(request, network)
    _check_moment(request, earliest=at - skew, latest=at + skew)
    memory.forget_before(_clamped(at - skew))
    memory.check_unheard(peer, request.nonce, signed_at=request.at)
    verify_signature(peer, SignedKind.REQUEST, signed.body, signed.signature)
    memory.remember(peer, request.nonce, signed_at=request.at)
    return VerifiedRequest(signed, _SEAL)


def verify_proof(
    signed: SignedRequest, *, at: Instant, skew_s: int, age_max_s: int, network: NetworkName
) -> VerifiedRequest:
    """Verify a request that another broker hands on as the reason for an interest or an offer.

    The edge has accepted it before, and the same proof may come by many ways, so it
    is no replay that it comes again; it counts for `age_max_s` and the clocks' difference.
    """
    _check_network(signed.request, network)
    skew = _skew(skew_s)
    _check_moment(signed.request, earliest=at - skew - _skew(age_max_s), latest=at + skew)
    verify_signature(signed.signer, SignedKind.REQUEST, signed.body, signed.signature)
    return VerifiedRequest(signed, _SEAL)


def digest_of_asked(signed: SignedRequest) -> bytes:
    """Return what a request has in common with those that ask for the same again: all but its ending."""
    return sha256(signed.signer.key + signed.body[: _BODY_TO - _ENDING_BYTES]).digest()[:16]


def _skew(seconds: int) -> int:
    if seconds < 0:
        raise ValueError("clocks differ by a number of seconds that is not negative")
    return seconds * SECOND


def _check_network(request: EdgeRequest, network: NetworkName) -> None:
    if request.network != network:
        raise Refusal(
            "REQUEST-ANOTHER-NETWORK",
            f"the request is for network `{request.network.name}` of `{request.network.owner}`",
        )


def _check_moment(request: EdgeRequest, *, earliest: int, latest: int) -> None:
    if request.at < earliest:
        raise Refusal(
            "REQUEST-TOO-LATE", f"the request was signed at `{request.at}`, which is too long ago{_CLOCKS}"
        )
    if request.at > latest:
        raise Refusal(
            "REQUEST-TOO-EARLY", f"the request was signed at `{request.at}`, which is too far ahead{_CLOCKS}"
        )


def _clamped(microseconds: int) -> Instant:
    return Instant(max(INSTANT_MIN, microseconds))


# ------------------------------------------------------------ thousands of them in little memory

# A broker shows signed requests to other brokers for as long as an interest depends on them. The requests of
# one client for one type differ in filter, moment, nonce and signature; all the rest is one frame that they
# share. Whatever the bytes are, the same come back: their layout decides only how much is shared.


_FILTER: Final = b"(6:filter"
_END: Final = len(b"))")
_SIGNATURE: Final = 64
_SIGNER: Final = len(b"))(6:signer(7:ed2551932:") + 32 + len(b"))(9:signature7:ed2551964:")
_NONCE: Final = 16
_BEFORE_NONCE: Final = len(b")(5:nonce16:")
_MOMENT: Final = 16
_STREAM: Final = len(b")(6:stream16:") + 16 + len(b")(2:at16:")

# Where the parts of a request begin, counted from its end: nearly all end in as many bytes as any other.
_SIGNED_AT: Final = _SIGNATURE + _END
_SIGNER_AT: Final = _SIGNER + _SIGNED_AT
_NONCE_AT: Final = _NONCE + _SIGNER_AT
_BEFORE_NONCE_AT: Final = _BEFORE_NONCE + _NONCE_AT
_MOMENT_AT: Final = _MOMENT + _BEFORE_NONCE_AT
_STREAM_AT: Final = _STREAM + _MOMENT_AT

_OWN_SIGNATURE_AT: Final = _SIGNATURE
_OWN_NONCE_AT: Final = _NONCE + _OWN_SIGNATURE_AT
_OWN_MOMENT_AT: Final = _MOMENT + _OWN_NONCE_AT


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RequestFrame:
    """What requests have in common: the bytes before and between those that each has of its own."""

    head: bytes = field(repr=False)
    before_moment: bytes = field(repr=False)
    before_nonce: bytes = field(repr=False)
    before_signature: bytes = field(repr=False)
    end: bytes = field(repr=False)

    def whole(self, own: bytes) -> bytes:
        """Return a signed request as it was."""
        if not self.end:
            return own
        return b"".join(
            (
                self.head,
                own[:-_OWN_MOMENT_AT],
                self.before_moment,
                own[-_OWN_MOMENT_AT:-_OWN_NONCE_AT],
                self.before_nonce,
                own[-_OWN_NONCE_AT:-_OWN_SIGNATURE_AT],
                self.before_signature,
                own[-_OWN_SIGNATURE_AT:],
                self.end,
            )
        )


_NOTHING_SHARED: Final = RequestFrame(b"", b"", b"", b"", b"")
_frames: Final[WeakValueDictionary[tuple[bytes, ...], RequestFrame]] = WeakValueDictionary()


def framed_request(request: bytes) -> tuple[RequestFrame, bytes]:
    """Return the frame that a request shares with others, and what it has of its own."""
    own_from = request.find(_FILTER) + len(_FILTER)
    if not len(_FILTER) <= own_from <= len(request) - _STREAM_AT:
        return _NOTHING_SHARED, request
    filter_and_moment = request[own_from:-_STREAM_AT] + request[-_MOMENT_AT:-_BEFORE_NONCE_AT]
    own = filter_and_moment + request[-_NONCE_AT:-_SIGNER_AT] + request[-_SIGNED_AT:-_END]
    shared = (
        request[:own_from],
        request[-_STREAM_AT:-_MOMENT_AT],
        request[-_BEFORE_NONCE_AT:-_NONCE_AT],
        request[-_SIGNER_AT:-_SIGNED_AT],
        request[-_END:],
    )
    frame = _frames.get(shared)
    if frame is None:
        frame = _frames[shared] = RequestFrame(*shared)
    return frame, own


def signed_at(own: bytes, frame: RequestFrame = _NOTHING_SHARED) -> Instant:
    """Return when a request says that it was signed; with a frame, of what it has of its own."""
    digits = own[-_OWN_MOMENT_AT:-_OWN_NONCE_AT] if frame.end else own[-_MOMENT_AT:-_BEFORE_NONCE_AT]
    if len(digits) == _MOMENT and digits.isdigit():
        return Instant(int(digits))
    return request_from_bytes(frame.whole(own)).request.at


def without_filter(request: bytes, filter_: Predicate) -> tuple[RequestFrame, bytes]:
    """Return the frame of a request and what it has of its own but the filter, which the caller keeps too."""
    frame, own = framed_request(request)
    if own[:-_OWN_MOMENT_AT] == _written(filter_):
        return frame, own[-_OWN_MOMENT_AT:]
    return _NOTHING_SHARED, request


def with_filter(frame: RequestFrame, own: bytes, filter_: Predicate) -> bytes:
    """Return all that a request has of its own, from what `without_filter` has left of it."""
    return own if frame is _NOTHING_SHARED else _written(filter_) + own


def _written(filter_: Predicate) -> bytes:
    return write_canonical(predicate_to_expression(filter_))


# ------------------------------------------------------------ the digest by which a client renews all of them

# One message renews every accepted request of a link: it has their number and their digest, which both sides
# compute from the requests. A request that was refused or replaced makes the digests differ. The digest is no
# secret and no proof: it finds mistakes, and a client that lies renews nothing but its own.


def digest_of_request(request: bytes) -> bytes:
    """Return the hash of a signed request, as it travels."""
    return sha256(request).digest()


def digest_of_standing(requests: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the digest of references, each with the digest of the last request under it, in any order."""
    standing = b"".join(ref.to_bytes(8, "big") + digest for ref, digest in sorted(requests))
    return sha256(b"maia/1/standing\x00" + standing).digest()
