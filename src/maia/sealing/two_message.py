"""How do two nodes prove their keys and agree on a secret with one message each?

A poor network cannot afford the flights and certificates of TLS. On a statement
link (Gismo 4, figure 4) the node that dials sends a request and gets a response.
STATEMENT is the short form of an identity statement.

    request   A1 LENGTH  EPHEMERAL(32) TIME(8) SIGNATURE(64) STATEMENT
    response  A2 LENGTH  HPKE to EPHEMERAL of  SECRET(32) SIGNATURE(64) STATEMENT
    record    LENGTH     AES-256-GCM of at most 16 KiB; a record of no bytes is the end

    state       what comes                      what is done                      next
    ---------   -----------------------------   -------------------------------   --------
    (dials)     -                               send the request                  asked
    asked       response, its signature good    derive both record keys           open
    (accepts)   request, good, new, in time     send the response, derive keys    open
    open        record with the next number     hand its bytes on                 open
    open        record of no bytes              hand on that the peer has ended   ended
    any         anything else                   raise; the caller closes          -

The request's signature covers the key of the one responder that it is for, which
does not travel: at another responder the signature does not hold. The paper has
no protection against replay (S9). Here a responder remembers the requests of each
signer within the window of clock skew, refuses older ones by their time, and
refuses what was signed before it began to remember. The response is bound to the
request by its hash, in the HPKE context and in the responder's signature.

Forward secrecy: the secret travels under two ephemeral X25519 keys, and both
secret halves are gone when the link is open. The signing keys only sign. Each
direction has its own record key, and the number of a record is its nonce, so
records cannot be repeated, left out, swapped or sent back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from maia.credentials import Principal, SignedKind, SigningKey, verify_signature
from maia.credentials.identity import (
    IDENTITY_BYTES_MAX,
    IdentityTrust,
    SignedIdentity,
    VerifiedIdentity,
    pack_identity,
    unpack_identity,
)
from maia.credentials.keys import SIGNATURE_BYTES, BadSignature
from maia.errors import BrokenCredential, ProtocolViolation, Unavailable
from maia.events import SECOND, Instant, NotAnInstant
from maia.sealing.keys.delivery import (
    ENCRYPTION_KEY_BYTES,
    BadDelivery,
    BadEncryptionKey,
    SessionKey,
    seal_to,
)
from maia.wire.replays import NONCE_BYTES, ReplayMemory

HEAD_BYTES: Final = 3
RECORD_BYTES_MAX: Final = 16 << 10
"""How many bytes of plaintext one record holds."""
RECORDS_MAX: Final = 1 << 24
"""How many records one key protects; with 16 KiB each this is within AES-GCM's bound of 2^24.5."""
REQUEST_WINDOW_S: Final = 60
"""How far the clocks of the two sides may differ."""

_REQUEST: Final = 0xA1
_RESPONSE: Final = 0xA2
_TIME_BYTES: Final = 8
_SECRET_BYTES: Final = 32
_TAG_BYTES: Final = 16
_LENGTH_BYTES: Final = 2
_REQUEST_FIXED: Final = ENCRYPTION_KEY_BYTES + _TIME_BYTES + SIGNATURE_BYTES
_RESPONSE_FIXED: Final = ENCRYPTION_KEY_BYTES + _TAG_BYTES + _SECRET_BYTES + SIGNATURE_BYTES
_LENGTHS: Final = {
    kind: range(fixed + 1, fixed + IDENTITY_BYTES_MAX + 1)
    for kind, fixed in ((_REQUEST, _REQUEST_FIXED), (_RESPONSE, _RESPONSE_FIXED))
}
_RESPONSE_FOR: Final = b"maia/1 two-message response\x00"
_RECORDS_FOR: Final = b"maia/1 two-message records\x00"


@dataclass(frozen=True, slots=True)
class LinkIdentity:
    """What a node needs to open statement links: its key and statement, and the providers it trusts.

    Peers are of the community of the node's own statement.
    """

    key: SigningKey
    own: SignedIdentity
    providers: frozenset[Principal]
    window_s: int = REQUEST_WINDOW_S

    @property
    def trust(self) -> IdentityTrust:
        """Return whose statements are believed."""
        return IdentityTrust(self.own.statement.community, self.providers)


# ------------------------------------------------------------ records


class Records:
    """One direction of an open link: its key and the number of the next record."""

    __slots__ = ("_cipher", "_next", "_records_max")

    def __init__(self, key: bytes, *, records_max: int = RECORDS_MAX) -> None:
        self._cipher = AESGCM(key)
        self._next = 0
        self._records_max = records_max

    def seal(self, plaintext: bytes | memoryview) -> bytes:
        """Return the next record, with its length before it."""
        if len(plaintext) > RECORD_BYTES_MAX:
            raise ValueError(f"a record holds at most {RECORD_BYTES_MAX} bytes")
        head = (len(plaintext) + _TAG_BYTES).to_bytes(_LENGTH_BYTES, "big")
        return head + self._cipher.encrypt(self._nonce(), plaintext, head)

    def open(self, head: bytes, sealed: bytes | bytearray) -> bytes:
        """Return what the next record holds; raise if these bytes are anything else."""
        try:
            return self._cipher.decrypt(self._nonce(), sealed, head)
        except InvalidTag:
            raise ProtocolViolation(
                "PROTOCOL-LINK-RECORD", "this is not the next record that the peer has sealed; connect again"
            ) from None

    def _nonce(self) -> bytes:
        if self._next >= self._records_max:
            raise Unavailable(
                "UNAVAILABLE-LINK-RECORDS",
                f"{self._records_max} records are all that one key protects; connect again",
            )
        self._next += 1
        return (self._next - 1).to_bytes(12, "big")


@dataclass(slots=True)
class OpenLink:
    """A link whose two sides have proved their keys."""

    peer: VerifiedIdentity
    own: SignedIdentity
    _sending: Records = field(repr=False)
    _receiving: Records = field(repr=False)
    _held: bytearray = field(default_factory=bytearray, repr=False)
    has_ended: bool = False
    """True when the peer has said that nothing follows."""

    @property
    def principal(self) -> Principal:
        """Return the key that the peer has proved."""
        return self.peer.statement.subject

    def seal(self, data: bytes | memoryview) -> bytes:
        """Return the records that carry these bytes."""
        view = memoryview(data)
        return b"".join(
            self._sending.seal(view[at : at + RECORD_BYTES_MAX])
            for at in range(0, len(view), RECORD_BYTES_MAX)
        )

    def seal_end(self) -> bytes:
        """Return the record that says that nothing follows."""
        return self._sending.seal(b"")

    def feed(self, data: bytes | memoryview) -> bytes:
        """Take what arrived, and return what its whole records hold; at most one record is held back."""
        held = self._held
        held += data
        opened: list[bytes] = []
        at = 0
        while not self.has_ended and len(held) - at >= _LENGTH_BYTES:
            head = bytes(held[at : at + _LENGTH_BYTES])
            end = at + _LENGTH_BYTES + _record_length(head)
            if end > len(held):
                break
            plaintext = self._receiving.open(head, held[at + _LENGTH_BYTES : end])
            self.has_ended = not plaintext
            opened.append(plaintext)
            at = end
        del held[:at]
        if self.has_ended and held:
            raise ProtocolViolation("PROTOCOL-LINK-RECORD", "bytes came behind the end of the link")
        return b"".join(opened)

    def check_end(self) -> None:
        """Raise if the connection ended inside a record."""
        if self._held:
            raise ProtocolViolation(
                "PROTOCOL-LINK-RECORD", "the connection ended inside a record; connect again"
            )


def _record_length(head: bytes) -> int:
    length = int.from_bytes(head, "big")
    if not _TAG_BYTES <= length <= RECORD_BYTES_MAX + _TAG_BYTES:
        raise ProtocolViolation("PROTOCOL-LINK-RECORD", f"a record of {length} bytes is none")
    return length


def _open_link(
    peer: VerifiedIdentity,
    own: SignedIdentity,
    secret: bytes,
    asked: bytes,
    response: bytes,
    *,
    dialled: bool,
) -> OpenLink:
    info = _RECORDS_FOR + sha256(response).digest()
    keys = HKDF(SHA256(), 2 * _SECRET_BYTES, salt=asked, info=info).derive(secret)
    of_requester, of_responder = Records(keys[:_SECRET_BYTES]), Records(keys[_SECRET_BYTES:])
    if dialled:
        return OpenLink(peer, own, of_requester, of_responder)
    return OpenLink(peer, own, of_responder, of_requester)


# ------------------------------------------------------------ the two messages


class Request:
    """The side that dials: `data` is what it sends, and one response opens the link."""

    __slots__ = ("_ephemeral", "_identity", "_responder", "data")

    def __init__(
        self, identity: LinkIdentity, responder: Principal, now: Instant, random: Callable[[int], bytes]
    ) -> None:
        """Ask `responder`, and no other, for a link."""
        self._identity, self._responder = identity, responder
        self._ephemeral: SessionKey | None = SessionKey(random)
        statement = pack_identity(identity.own)
        asked = self._ephemeral.public + now.to_bytes(_TIME_BYTES, "big", signed=True)
        signature = identity.key.sign(SignedKind.LINK_REQUEST, _request_body(asked, responder, statement))
        self.data = _with_head(_REQUEST, asked + signature + statement)

    def open(self, response: bytes, now: Instant) -> OpenLink:
        """Return the link that this response opens; any other one is refused, and so is a second one."""
        ephemeral, self._ephemeral = self._ephemeral, None
        if ephemeral is None:
            raise ProtocolViolation("PROTOCOL-LINK-MESSAGE", "a request has one response")
        sealed, asked = _without_head(_RESPONSE, response), sha256(self.data).digest()
        try:
            opened = ephemeral.open(sealed, _RESPONSE_FOR + asked)
        except BadDelivery:
            raise BrokenCredential(
                "CREDENTIAL-LINK-NOT-PROVED",
                "the response is no answer to this request; check the key in the address",
            ) from None
        secret, rest = opened[:_SECRET_BYTES], opened[_SECRET_BYTES:]
        signature, statement = rest[:SIGNATURE_BYTES], rest[SIGNATURE_BYTES:]
        peer = self._identity.trust.verified(statement, self._responder, now)
        _check_signature(
            self._responder, SignedKind.LINK_RESPONSE, _response_body(asked, secret, statement), signature
        )
        return _open_link(peer, self._identity.own, secret, asked, response, dialled=True)


class Responder:
    """The side that accepts: it answers each request once, and remembers those within the window."""

    __slots__ = ("_memory",)

    def __init__(self, started_at: Instant, memory: ReplayMemory | None = None) -> None:
        """Refuse what was signed up to `started_at`: requests of an earlier run are not remembered."""
        self._memory = ReplayMemory() if memory is None else memory
        self._memory.refuse_up_to(started_at)

    def respond(
        self, identity: LinkIdentity, request: bytes, now: Instant, random: Callable[[int], bytes]
    ) -> tuple[bytes, OpenLink]:
        """Return the response to a request, and the link that it opens; raise for any other bytes."""
        content = _without_head(_REQUEST, request)
        asked_end = ENCRYPTION_KEY_BYTES + _TIME_BYTES
        asked, signature = content[:asked_end], content[asked_end:_REQUEST_FIXED]
        ephemeral, statement = asked[:ENCRYPTION_KEY_BYTES], content[_REQUEST_FIXED:]
        signed_at = _checked_time(asked[ENCRYPTION_KEY_BYTES:], now, identity.window_s)
        digest = sha256(request).digest()
        nonce = ephemeral[:NONCE_BYTES]
        # A stranger without a statement of a trusted provider costs no signature check, one that forges
        # such a statement costs one, and only what is signed is remembered.
        subject = unpack_identity(statement).statement.subject
        self._memory.forget_before(Instant(now - identity.window_s * SECOND))
        self._memory.check_unheard(subject, nonce, signed_at=signed_at)
        if subject == identity.key.principal:
            raise BrokenCredential(
                "CREDENTIAL-LINK-NOT-PROVED", "a request of this node's own key is a reflection"
            )
        peer = identity.trust.verified(statement, subject, now)
        body = _request_body(asked, identity.key.principal, statement)
        _check_signature(subject, SignedKind.LINK_REQUEST, body, signature)
        secret, own = random(_SECRET_BYTES), pack_identity(identity.own)
        signed = identity.key.sign(SignedKind.LINK_RESPONSE, _response_body(digest, secret, own))
        try:
            sealed = seal_to(ephemeral, secret + signed + own, _RESPONSE_FOR + digest, random)
        except BadEncryptionKey as problem:
            raise ProtocolViolation("PROTOCOL-LINK-MESSAGE", problem.message) from None
        self._memory.remember(subject, nonce, signed_at=signed_at)
        response = _with_head(_RESPONSE, sealed)
        return response, _open_link(peer, identity.own, secret, digest, response, dialled=False)


def message_length(head: bytes) -> int:
    """Return how many bytes follow the head of a request or response; refuse any other head."""
    lengths = _LENGTHS.get(head[0]) if len(head) == HEAD_BYTES else None
    length = int.from_bytes(head[1:], "big")
    if lengths is None or length not in lengths:
        raise ProtocolViolation(
            "PROTOCOL-LINK-MESSAGE",
            "this does not open a statement link; is one of the two sides configured for TLS?",
        )
    return length


def _with_head(kind: int, content: bytes) -> bytes:
    return bytes((kind,)) + len(content).to_bytes(_LENGTH_BYTES, "big") + content


def _without_head(kind: int, message: bytes) -> bytes:
    head, content = message[:HEAD_BYTES], message[HEAD_BYTES:]
    if message_length(head) != len(content) or head[0] != kind:
        raise ProtocolViolation(
            "PROTOCOL-LINK-MESSAGE",
            f"this is no {'request' if kind == _REQUEST else 'response'} of its length",
        )
    return content


def _request_body(asked: bytes, responder: Principal, statement: bytes) -> bytes:
    return asked + responder.key + statement


def _response_body(asked: bytes, secret: bytes, statement: bytes) -> bytes:
    return asked + sha256(secret).digest() + statement


def _check_signature(peer: Principal, kind: SignedKind, body: bytes, signature: bytes) -> None:
    try:
        verify_signature(peer, kind, body, signature)
    except BadSignature:
        raise BrokenCredential(
            "CREDENTIAL-LINK-NOT-PROVED",
            f"`{peer}` has not signed this for these two nodes; check the key in the address",
        ) from None


def _checked_time(data: bytes, now: Instant, window_s: int) -> Instant:
    try:
        signed_at = Instant(int.from_bytes(data, "big", signed=True))
    except NotAnInstant:
        raise ProtocolViolation(
            "PROTOCOL-LINK-MESSAGE", "a link request is dated at no moment there is"
        ) from None
    if abs(signed_at - now) > window_s * SECOND:
        raise ProtocolViolation(
            "PROTOCOL-LINK-REQUEST-TIME",
            f"the request is dated `{signed_at}`, and clocks may differ by {window_s} s; set the clock",
        )
    return signed_at
