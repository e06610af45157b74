"""How does a page work? It asks, gives or takes away once the caller may, on the service's own thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec

from maia.api.headers import PUBLISHED_HEADER
from maia.api.problems import BadCall
from maia.credentials import Principal
from maia.credentials.appointments import SignedAppointment, appointment_from_bytes
from maia.domain.access.results import AdminAct, LoadedPolicy, Page, Revoked
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.authentication import Caller, Gate
from maia.domain.http.endpoints import Answer, Call
from maia.domain.server.service import DomainService

__all__ = [
    "PageWork",
    "Reload",
    "check_own",
    "id_from_word",
    "id_of",
    "page_of",
    "pool_of",
    "shown_of",
    "told",
]

_ENCODER: Final = msgspec.json.Encoder()
_Row = TypeVar("_Row")
_Struct = TypeVar("_Struct")
Reload = Callable[[Principal], Awaitable[tuple[LoadedPolicy, bool]]]
"""Reads the policy's file again, in somebody's name; also says whether the network knows what fell."""
# Any: each page has a struct of its own, and the encoder takes them all.
_Work = Callable[[AccessControl], Any]
_May = Callable[[AccessControl], None]


class PageWork:
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
        """Do an act that takes something away; answer when the network knows, or cannot be told."""
        taken: list[Revoked] = []

        def act(access: AccessControl) -> Any:
            revoked = work(access)
            taken.append(revoked)
            return shape(revoked)

        content = await self.service.ask(lambda access: _once(access, call, lambda: act(access), may))
        is_known = await self.service.announce(taken)
        return told(content, is_known=is_known)


def told(content: Any, *, is_known: bool) -> Answer:
    return Answer(content, 200 if is_known else 202, {PUBLISHED_HEADER: "yes" if is_known else "no"})


def pool_of(call: Call) -> tuple[Any, ...]:
    return () if call.caller is None else call.caller.credentials


def _check(access: AccessControl, call: Call) -> None:
    """Raise unless the caller's certificates allow what the page does."""
    if call.act is not None:
        access.authorised(call.actor, pool_of(call), call.act, call.now)


def check_own(
    access: AccessControl, call: Call, principal: Principal, act: AdminAct = AdminAct.READ_REGISTER
) -> None:
    if call.actor != principal:
        access.authorised(call.actor, pool_of(call), act, call.now)


def _once(access: AccessControl, call: Call, work: Callable[[], Any], may: _May | None) -> bytes:
    """Do an act and return its answer's bytes; with a key, return those of the first time.

    Whoever may not do it any more hears so, and not what it once was told:
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


def id_of(call: Call) -> bytes:
    return id_from_word(call.path["id"])


def id_from_word(word: str) -> bytes:
    """Read an id of a certificate, appointment or membership."""
    try:
        found = bytes.fromhex(word)
    except ValueError:
        found = b""
    if len(found) != 32 or word != found.hex():
        shown = word[:64].encode("unicode_escape").decode()
        raise BadCall(f"`{shown}` is no id: one is written with 64 hexadecimal digits, 0 to 9 and a to f")
    return found


def shown_of(certificates: list[bytes]) -> list[SignedAppointment]:
    return [appointment_from_bytes(one) for one in certificates]
