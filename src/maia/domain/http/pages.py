"""What is a page of the HTTP interface, and how does it work?

A page is a handler with its method, path, body, answer and the right that it
wants, said beside it; routes, authorisation and the OpenAPI document are all
made from that. It asks, gives or takes away once the caller may, on the
service's own thread. A change wants PUBLISH on an `/admin/…` topic of the
domain's key; reading about others, SUBSCRIBE. Every principal may ask for its
own roles and rights. Answers about a principal's rights go to that principal
and to those who may read the register.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec

from maia.api.problems import PUBLISHED_HEADER, BadCall
from maia.api.requests import Question
from maia.credentials import Principal, SignedCertificate
from maia.domain.access.results import AdminAct, LoadedPolicy, Page, Revoked
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.authentication import BODY_BYTES_MAX, Caller, Gate
from maia.domain.server.service import DomainService
from maia.events import Instant

_PARAMETER: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page answers: a struct of the kind that the table says, or bytes that are kept as they are."""

    # Any: each page has a struct of its own, and the encoder takes them all.
    content: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """One call, read and let in."""

    caller: Caller | None
    # Any: each page says which struct its body is, and its handler is written for that one.
    body: Any
    question: Any
    path: Mapping[str, str]
    now: Instant
    act: AdminAct | None = None
    """What the caller's certificates must allow; asked where the act is done, and nothing in between."""

    @property
    def actor(self) -> Principal:
        """Return who calls; public pages do not ask."""
        if self.caller is None:
            raise TypeError("a public page has no caller")
        return self.caller.principal


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One page."""

    method: str
    path: str
    summary: str
    answer: type
    body: type | None = None
    question: type[Question] | None = None
    act: AdminAct | None = None
    """What an administrator's certificates must allow; None where the caller needs none."""
    is_public: bool = False
    """Whether an unsigned call is answered."""
    takes_key: bool = False
    """Whether an idempotency key counts: for pages that issue something."""
    tag: str = "domain"
    answers_with: int = 200
    takes_away: bool = False
    """Whether it answers 202 where no broker has taken on yet what it took away."""
    body_max: int = BODY_BYTES_MAX

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the path's parameters."""
        return tuple(_PARAMETER.findall(self.path))


_ENCODER: Final = msgspec.json.Encoder()
_Row = TypeVar("_Row")
_Struct = TypeVar("_Struct")
Reload = Callable[[Principal], Awaitable[tuple[LoadedPolicy, bool]]]
"""Reads the policy's file again for an actor; also says whether a broker has taken the statement about it."""
# Any: each page has a struct of its own, and the encoder takes them all.
_Work = Callable[[AccessControl], Any]
_May = Callable[[AccessControl], None]


class Pages:
    """What all pages over one domain service share."""

    def __init__(self, service: DomainService, gate: Gate, *, reload: Reload | None = None) -> None:
        """Answer for `service`; `reload` reads the policy's file again, where there is one."""
        self.service = service
        self.gate = gate
        self.reload = reload

    async def check_act(self, caller: Caller, act: AdminAct) -> None:
        """Raise unless the certificates of a caller allow an act; for those whose body is not read yet."""
        now = self.service.clock()
        await self.service.ask(
            lambda access: access.authorised(caller.principal, caller.credentials, act, now)
        )

    async def ask(self, call: Call, work: _Work) -> Answer:
        """Answer a question, once the caller may ask it."""

        def job(access: AccessControl) -> Any:
            _check(access, call)
            return work(access)

        return Answer(await self.service.ask(job))

    async def issue(self, call: Call, work: _Work, *, may: _May | None = None, status: int = 201) -> Answer:
        """Do an act that gives something, once for each idempotency key, if the caller may each time."""
        content = await self.service.ask(lambda access: _once(access, call, lambda: work(access), may))
        return Answer(content, status)

    async def take_away(
        self,
        call: Call,
        work: Callable[[AccessControl], Revoked],
        shape: Callable[[Revoked], Any] = shaping.revoked_answer,
        *,
        may: _May | None = None,
    ) -> Answer:
        """Do an act that takes something away; answer when a broker has the statement, or none is there."""
        taken: list[Revoked] = []

        def act(access: AccessControl) -> Any:
            revoked = work(access)
            taken.append(revoked)
            return shape(revoked)

        content = await self.service.ask(lambda access: _once(access, call, lambda: act(access), may))
        is_known = await self.service.announce(taken)
        return published(content, is_known=is_known)


def published(content: Any, *, is_known: bool) -> Answer:
    """Return an answer that says whether the network has the statement that goes with it."""
    return Answer(content, 200 if is_known else 202, {PUBLISHED_HEADER: "yes" if is_known else "no"})


def pool_of(call: Call) -> tuple[SignedCertificate, ...]:
    return () if call.caller is None else call.caller.credentials


def _check(access: AccessControl, call: Call) -> None:
    """Raise unless the caller's certificates allow what the page does."""
    if call.act is not None:
        access.authorised(call.actor, pool_of(call), call.act, call.now)


def check_own(
    access: AccessControl, call: Call, principal: Principal, act: AdminAct = AdminAct.READ_REGISTER
) -> None:
    """Raise unless the caller asks about itself, or its certificates allow `act`."""
    if call.actor != principal:
        access.authorised(call.actor, pool_of(call), act, call.now)


def _once(access: AccessControl, call: Call, work: Callable[[], Any], may: _May | None) -> bytes:
    """Do an act and return its answer's bytes; with a key, return those of the first time.

    A caller that may not do it any more is refused, whatever it was answered before:
    `may` raises where the table of pages does not say all that there is to check.
    """
    _check(access, call)
    if may is not None:
        may(access)
    caller = call.caller
    if caller is None or not caller.once:
        return _ENCODER.encode(work())
    asked = sha256(caller.digest).digest()
    return access.once(caller.once, asked, lambda: _ENCODER.encode(work()), actor=call.actor, now=call.now)


def page_of(
    kind: Callable[[list[Any], str | None], _Struct], page: Page[_Row], shape: Callable[[_Row], Any]
) -> _Struct:
    return kind([shape(one) for one in page.rows], page.after)


def id_from_text(text: str) -> bytes:
    """Read an id of a certificate, appointment or membership."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != 32 or text != found.hex():
        shown = text[:64].encode("unicode_escape").decode()
        raise BadCall(f"`{shown}` is no id: one is written with 64 hexadecimal digits, 0 to 9 and a to f")
    return found


Handler = Callable[[Pages, Call], Awaitable[Answer]]


class PageTable(dict[Endpoint, Handler]):
    """Pages with their handlers, in the order in which the OpenAPI document lists them."""

    def serve(self, endpoint: Endpoint) -> Callable[[Handler], Handler]:
        """Have the function below answer a page."""

        def entered(handler: Handler) -> Handler:
            self[endpoint] = handler
            return handler

        return entered
