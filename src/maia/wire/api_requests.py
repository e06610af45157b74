"""Who asks this of a domain's HTTP interface, of which domain, and is it asked now?

A request carries one signed expression in its `Authorization` header:

    (signed
      (api-request (version 1) (audience (ed25519 KEY)) (instance BYTES16)
        (method METHOD) (target PATH-AND-QUERY) (content SHA256)
        (credentials SHA256) (once KEY-OR-NOTHING) (at MICROSECONDS) (nonce BYTES16))
      (signer (ed25519 KEY))
      (signature ed25519 BYTES))

It names the domain that it is meant for, so another domain that receives it
cannot use it (A18), and that domain's present run, so no request from before a
restart is accepted again. What was signed is what is done: method,
target, body, certificates and idempotency key are all inside.
"""

from __future__ import annotations

import re
from dataclasses import InitVar, dataclass, field
from hashlib import sha256
from typing import Final, final

from maia.canonical import Limits, SExpression
from maia.canonical.fields import Part
from maia.credentials import Principal, SignedKind, verify_signature
from maia.credentials.documents import KEY, Document
from maia.credentials.proof import Proof
from maia.errors import BadInput, BrokenCredential, ProtocolViolation, Refusal
from maia.events import INSTANT_MIN, SECOND, Instant
from maia.wire.replays import NONCE_BYTES, ReplayMemory
from maia.wire.requests import moment_of_request

API_REQUEST_BYTES_MAX: Final = 8192
API_SKEW_S: Final = 60
"""By how many seconds the clocks of a caller and of a domain may differ, unless configured otherwise."""
INSTANCE_BYTES: Final = 16
TARGET_BYTES_MAX: Final = 4096
ONCE_BYTES_MAX: Final = 128

_METHODS: Final = frozenset({b"GET", b"POST", b"PUT", b"DELETE"})
_TARGET: Final = re.compile(rb"/[\x21-\x7e]*")
_ONCE: Final = re.compile(rb"[\x21-\x7e]*")
_DIGEST_BYTES: Final = 32
_SEAL: Final = object()


class BadApiRequest(ProtocolViolation):
    """Bytes are not a signed request to a domain as Maia writes it."""

    code = "PROTOCOL-API-REQUEST"


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One HTTP request as both ends see it; digests stand for what is long."""

    method: str
    target: str
    content: bytes = field(repr=False)
    credentials: bytes = field(repr=False)
    once: str = ""

    @classmethod
    def of(
        cls, method: str, target: str, *, body: bytes, credentials: bytes = b"", once: str = ""
    ) -> ApiCall:
        """Describe a request by its body, the certificates as they are written, and its idempotency key."""
        return cls(method, target, sha256(body).digest(), sha256(credentials).digest(), once)


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What is signed: a call, for whom it is meant, and when it was made."""

    audience: Principal
    instance: bytes
    call: ApiCall
    at: Instant
    nonce: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SignedApiRequest:
    """A request, who is said to have signed it, and the exact bytes; nothing here is verified."""

    request: ApiRequest
    signer: Principal
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)


@final
@dataclass(frozen=True, slots=True)
class VerifiedApiRequest(Proof):
    """A request that this principal makes of this domain now. Only `verify_api_request` makes one."""

    request: ApiRequest
    signer: Principal
    # Not a field: `dataclasses.replace` therefore cannot carry it over to an altered copy.
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        """Refuse every caller but the verifier."""
        if seal is not _SEAL:
            raise TypeError("only verify_api_request makes a VerifiedApiRequest")


# ------------------------------------------------------------ signing, writing, reading


def _to_expression(request: ApiRequest) -> SExpression:
    call = request.call
    try:
        method, target, once = (one.encode("ascii") for one in (call.method, call.target, call.once))
    except UnicodeEncodeError:
        raise BadApiRequest("method, target and idempotency key are written in ASCII") from None
    return (
        b"api-request",
        (b"version", b"1"),
        (b"audience", (b"ed25519", request.audience.key)),
        (b"instance", request.instance),
        (b"method", method),
        (b"target", target),
        (b"content", call.content),
        (b"credentials", call.credentials),
        (b"once", once),
        (b"at", b"%d" % request.at),
        (b"nonce", request.nonce),
    )


def _from_expression(expression: SExpression) -> ApiRequest:
    match expression:
        case (
            b"api-request",
            (b"version", b"1"),
            (b"audience", audience),
            (b"instance", bytes(instance)),
            (b"method", bytes(method)),
            (b"target", bytes(target)),
            (b"content", bytes(content)),
            (b"credentials", bytes(credentials)),
            (b"once", bytes(once)),
            (b"at", bytes(at)),
            (b"nonce", bytes(nonce)),
        ) if (
            method in _METHODS
            and _TARGET.fullmatch(target)
            and _ONCE.fullmatch(once)
            and len(once) <= ONCE_BYTES_MAX
            and (len(instance), len(nonce)) == (INSTANCE_BYTES, NONCE_BYTES)
            and len(content) == len(credentials) == _DIGEST_BYTES
        ):
            call = ApiCall(method.decode(), target.decode(), content, credentials, once.decode())
            return ApiRequest(
                KEY.read(audience),
                instance,
                call,
                moment_of_request(at, BadApiRequest),
                nonce,
            )
    raise BadApiRequest("a field of the request is missing, unknown, repeated, too long or out of order")


API_REQUEST: Final = Document[ApiRequest, SignedApiRequest](
    Part(_to_expression, _from_expression),
    "signed request",
    BadApiRequest,
    Limits(size_max=API_REQUEST_BYTES_MAX, depth_max=6, atom_max=TARGET_BYTES_MAX),
    lambda _: SignedKind.API_REQUEST,
    lambda said, body, signature, signer: SignedApiRequest(said, signer, body, signature),
    wraps=(BadInput, BrokenCredential),
    names_signer=True,
)

sign_api_request = API_REQUEST.sign
api_request_to_bytes = API_REQUEST.to_bytes
api_request_from_bytes = API_REQUEST.from_bytes


# ------------------------------------------------------------ verifying


def verify_api_request(
    signed: SignedApiRequest,
    *,
    call: ApiCall,
    audience: Principal,
    instance: bytes,
    at: Instant,
    memory: ReplayMemory,
    skew_s: int = API_SKEW_S,
) -> VerifiedApiRequest:
    """Verify that the signer makes exactly this call of this domain, now and for the first time.

    A request that is accepted is remembered, and the same bytes are refused
    from then on. One that is refused leaves the memory as it was.
    """
    request, skew = signed.request, skew_s * SECOND
    _check_meant_for(request, audience, instance)
    if request.call != call:
        raise Refusal("REQUEST-ALTERED", "the request differs from what was signed")
    if request.at < at - skew:
        raise Refusal("REQUEST-TOO-LATE", f"the request was signed at `{request.at}`, and here it is `{at}`")
    if request.at > at + skew:
        raise Refusal("REQUEST-TOO-EARLY", f"the request was signed at `{request.at}`, and here it is `{at}`")
    memory.forget_before(Instant(max(INSTANT_MIN, at - skew)))
    memory.check_unheard(signed.signer, request.nonce, signed_at=request.at)
    verify_signature(signed.signer, SignedKind.API_REQUEST, signed.body, signed.signature)
    memory.remember(signed.signer, request.nonce, signed_at=request.at)
    return VerifiedApiRequest(request, signed.signer, _SEAL)


def _check_meant_for(request: ApiRequest, audience: Principal, instance: bytes) -> None:
    if request.audience != audience:
        raise Refusal("REQUEST-ANOTHER-DOMAIN", f"the request is for `{request.audience}`")
    if request.instance != instance:
        raise Refusal(
            "REQUEST-ANOTHER-RUN", "the request is for another run of this server; ask it for its present one"
        )
