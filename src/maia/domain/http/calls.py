"""What is a call to a domain once it is let in, and how is it done: by whom, how often, in which turn?

It asks, gives or takes away once the caller may, on the service's own thread. A change wants PUBLISH on an
`/admin/…` topic of the domain's key; reading about others, SUBSCRIBE. Every principal may ask for its own
roles and rights. Answers about a principal's rights go to that principal and to those who may read the
register.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypedDict

import msgspec
from starlette.responses import Response

from maia.api.endpoints import Asked, Endpoint
from maia.api.http_calls import json_response
from maia.api.problems import PUBLISHED_HEADER
from maia.credentials import Principal, SignedCertificate, principal_from_text
from maia.domain.access.results import AdminAct, LoadedPolicy, Revoked
from maia.domain.access.service import AccessControl
from maia.domain.http.answers import shaped
from maia.domain.http.authentication import Caller, Gate
from maia.domain.http.turns import Turns
from maia.domain.server.service import DomainService
from maia.errors import BadInput
from maia.events import Instant

if TYPE_CHECKING:
    from maia.domain.server.background import PolicyFile

ENCODER: Final = msgspec.json.Encoder()


class Acting(TypedDict):
    """By whom and when something is done."""

    actor: Principal
    now: Instant


class PageAsked(TypedDict):
    """Which part of a long answer is wanted."""

    after: Any  # a number for the audit, and a text for everything else
    limit: int


@dataclass(frozen=True, slots=True)
class Call(Generic[Asked]):
    """One call, read and let in."""

    caller: Caller | None
    asked: Asked
    """The body or the query, as the table says."""
    path: Mapping[str, str]
    now: Instant
    pages: Pages
    address: str | None = None
    """Where the caller has dialled from."""

    @property
    def actor(self) -> Principal:
        """Return who calls; public pages do not ask."""
        if self.caller is None:
            raise TypeError("a public page has no caller")
        return self.caller.principal

    @property
    def acting(self) -> Acting:
        return {"actor": self.actor, "now": self.now}

    @property
    def page(self) -> PageAsked:
        return {name: getattr(self.asked, name) for name in ("after", "limit")}  # type: ignore[return-value]

    @property
    def pool(self) -> tuple[SignedCertificate, ...]:
        return () if self.caller is None else self.caller.credentials

    @property
    def principal(self) -> Principal:
        """Return whom the path names."""
        return principal_from_text(self.path["principal"])

    @property
    def id(self) -> bytes:
        """Return the id of the certificate, appointment or membership that the path names."""
        return id_from_text(self.path["id"])


Handler: TypeAlias = Callable[[AccessControl, Call[Asked]], object]
"""Answers a call on the service's thread, with what is shown as the struct that the table says."""


@dataclass(frozen=True, slots=True)
class Page(Generic[Asked]):
    """A call of the table with its handler."""

    endpoint: Endpoint[Asked, Any]
    handler: Handler[Asked]
    may: Handler[Asked] | None = None
    """Raises unless the caller may, where the right of the table does not say all that there is to check."""


class Pages:
    """What all pages over one domain service share."""

    def __init__(
        self,
        service: DomainService,
        gate: Gate,
        *,
        policy: PolicyFile | None = None,
        brokers: Sequence[str] = (),
    ) -> None:
        """Answer for `service`, whose policy is in a file if there is one, and which has these brokers."""
        self.service, self.gate, self.policy, self.brokers = service, gate, policy, brokers
        self.turns = Turns()

    async def check_right(self, caller: Caller, right: str, address: str | None) -> None:
        """Raise unless the certificates of a caller allow an act; for those whose body is not read yet."""
        now, act = self.service.clock(), AdminAct.named(right)
        async with self.turns.turn(address):
            await self.service.ask(
                lambda access: access.authorised(caller.principal, caller.credentials, act, now)
            )

    async def answer(self, page: Page[Any], call: Call[Any], address: str | None) -> Response:
        """Do what a page does, if the caller may, once for each idempotency key.

        A caller that may not any more is refused, whatever it was answered before. What takes something away
        is answered when a broker has the statement, or none is there.
        """
        caller, endpoint, taken = call.caller, page.endpoint, list[Revoked]()

        def act(access: AccessControl) -> bytes:
            done = page.handler(access, call)
            if isinstance(done, LoadedPolicy | Revoked):
                taken.append(done.revoked if isinstance(done, LoadedPolicy) else done)
            return ENCODER.encode(shaped(done, endpoint.answer))

        def job(access: AccessControl) -> bytes:
            if endpoint.right:
                access.authorised(call.actor, call.pool, AdminAct.named(endpoint.right), call.now)
            if page.may is not None:
                page.may(access, call)
            if caller is None or not caller.once or not endpoint.is_once:
                return act(access)
            asked = sha256(caller.digest).digest()
            return access.once(caller.once, asked, lambda: act(access), **call.acting)

        async with self.turns.turn(address):
            content = await self.service.ask(job)
        if not endpoint.revokes:
            return json_response(endpoint.status, content)
        is_known = await self.service.announce(taken)
        headers = {PUBLISHED_HEADER: "yes" if is_known else "no"}
        return json_response(200 if is_known else 202, content, headers=headers)


def id_from_text(text: str) -> bytes:
    """Read an id of a certificate, appointment or membership."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != 32 or text != found.hex():
        shown = text[:64].encode("unicode_escape").decode()
        raise BadInput(
            "INPUT-API-CALL",
            f"`{shown}` is no id: one is written with 64 hexadecimal digits, 0 to 9 and a to f",
        )
    return found
