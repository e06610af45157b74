"""Who makes this call, with which certificates, and is it really this call?

Every page but a few public ones asks here first. The caller is the signer of
the request; certificates come with it and are verified where they are used.
Everything is bounded before it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from starlette.requests import Request

from maia.api.http_calls import read_body, signed_request_in, single_headers, target_of
from maia.api.problems import CREDENTIALS_BYTES_MAX, CREDENTIALS_HEADER, ONCE_HEADER, credentials_from_header
from maia.credentials import Budget, Principal, SignedCertificate, VerificationCache
from maia.credentials.chains.discovery import read_from_owner
from maia.domain.access.core import WORK_MAX
from maia.errors import BadInput, BrokenCredential, Refusal
from maia.events import Instant
from maia.wire.api_requests import (
    API_SKEW_S,
    INSTANCE_BYTES,
    ApiCall,
    api_request_from_bytes,
    verify_api_request,
)
from maia.wire.replays import ReplayMemory

REQUESTS_PER_PRINCIPAL_MAX: Final = 1200
"""Requests of one principal within the window of clock skew: ten a second with the usual one."""
_OURS: Final = frozenset({"authorization", CREDENTIALS_HEADER.lower(), ONCE_HEADER.lower()})
CERTIFICATES_REMEMBERED: Final = 4096
"""Certificates whose signatures were found good, so that they are not checked again with each call."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, the certificates that came along and that this domain's signatures lead to, and the key that
    makes the call unique.
    """

    principal: Principal
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    once: str
    digest: bytes = field(repr=False)
    """What was called: the same for a call that is made again."""
    content: bytes = field(repr=False)
    """The digest of the body that was signed."""


class Gate:
    """The door of one run of a domain's server."""

    def __init__(
        self,
        audience: Principal,
        *,
        instance: bytes,
        clock: Callable[[], Instant],
        skew_s: int = API_SKEW_S,
        is_revoked: Callable[[Principal], bool] = lambda _: False,
    ) -> None:
        """Admit calls that are signed for this domain and this run, by a key that was not revoked."""
        if len(instance) != INSTANCE_BYTES:
            raise ValueError(f"a run is named by {INSTANCE_BYTES} random bytes")
        self.audience, self.instance, self.skew_s = audience, instance, skew_s
        self._clock, self._is_revoked = clock, is_revoked
        self._memory = ReplayMemory(per_principal_max=REQUESTS_PER_PRINCIPAL_MAX)
        self._certificates = VerificationCache(certificates_max=CERTIFICATES_REMEMBERED)

    def admit(self, request: Request) -> Caller:
        """Return who calls; raise if the head of the call was not signed as it arrived."""
        headers = single_headers(request, _OURS)
        signed = api_request_from_bytes(signed_request_in(headers.get("authorization", "")))
        shown = headers.get(CREDENTIALS_HEADER.lower(), "")
        if len(shown) > CREDENTIALS_BYTES_MAX:
            raise BadInput(
                "INPUT-API-TOO-LARGE",
                f"more than {CREDENTIALS_BYTES_MAX} characters of certificates came with the call",
            )
        once = headers.get(ONCE_HEADER.lower(), "")
        said = signed.request.call.content
        call = ApiCall.of(
            request.method, target_of(request), body=b"", credentials=shown.encode("latin-1"), once=once
        )
        call = replace(call, content=said)
        verified = verify_api_request(
            signed,
            call=call,
            audience=self.audience,
            instance=self.instance,
            at=self._clock(),
            memory=self._memory,
            skew_s=self.skew_s,
        )
        if self._is_revoked(verified.signer):
            raise Refusal("REFUSED-KEY-REVOKED", f"the key `{verified.signer}` was revoked here")
        digest = b"\x00".join((call.method.encode(), call.target.encode(), said))
        return Caller(verified.signer, self._read(credentials_from_header(shown)), once, digest, said)

    def _read(self, shown: list[bytes]) -> tuple[SignedCertificate, ...]:
        """Read those certificates that this domain's signatures lead to; no others count here (A87)."""
        budget = Budget.of(WORK_MAX)
        try:
            read = read_from_owner(shown, root=self.audience, cache=self._certificates, budget=budget)
        except BrokenCredential as problem:
            raise BadInput(
                "INPUT-API-CALL", f"a certificate in `{CREDENTIALS_HEADER}` cannot be read: {problem.message}"
            ) from problem
        return tuple(read.values())


async def signed_body(request: Request, caller: Caller, body_max: int) -> bytes:
    """Read the body of a call whose caller is known; raise if it is not the one that was signed.

    An unsigned call fills no memory.
    """
    body = await read_body(request, body_max)
    if sha256(body).digest() != caller.content:
        raise Refusal("REQUEST-ALTERED", "the body differs from what was signed")
    return body
