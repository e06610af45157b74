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
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, TypeVar

import msgspec

from maia.api.problems import (
    CREDENTIALS_HEADER,
    ONCE_HEADER,
    PROBLEM_JSON,
    PUBLISHED_HEADER,
    SCHEME,
    ApiProblem,
    BadCall,
)
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


# What can be asked of a domain, for programs? An OpenAPI 3.1 document made from the table of pages.


API_VERSION: Final = "1"
_REF: Final = "#/components/schemas/{name}"

# Any in this file: JSON, as it will be written.
_Json = dict[str, Any]


def openapi_document(endpoints: Iterable[Endpoint]) -> _Json:
    """Return the document for these pages."""
    pages = list(endpoints)
    named = (kind for page in pages for kind in (page.answer, page.body, page.question) if kind is not None)
    kinds = list({id(kind): kind for kind in (ApiProblem, *named)}.values())
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, _Json] = {}
    for page in pages:
        paths.setdefault(page.path, {})[page.method.lower()] = _operation(page, by_kind)
    security = {
        "type": "http",
        "scheme": SCHEME.lower(),
        "description": "a canonical s-expression, signed by the caller's key, in base64",
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Maia domain",
            "version": API_VERSION,
            "description": "Who gets which right, and when it ends. Errors are problem details (RFC 9457).",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"signed": security}},
        "security": [{"signed": []}],
    }


def _operation(page: Endpoint, schemas: dict[int, _Json]) -> _Json:
    problem = {"content": {PROBLEM_JSON: {"schema": schemas[id(ApiProblem)]}}}
    answer = {"content": {"application/json": {"schema": schemas[id(page.answer)]}}}
    unpublished = {"202": {"description": "done, and no broker has the statement yet", **answer}}
    operation: _Json = {
        "operationId": re.sub(r"[^a-z0-9]+", "_", f"{page.method} {page.path}".lower()).strip("_"),
        "summary": page.summary,
        "tags": [page.tag],
        "parameters": _parameters(page, schemas),
        "responses": {
            str(page.answers_with): {"description": "the answer", **answer},
            **(unpublished if page.takes_away else {}),
            "4XX": {"description": "the caller can mend it, or is refused", **problem},
            "5XX": {"description": "not available now", **problem},
        },
    }
    if page.body is not None:
        content = {"application/json": {"schema": schemas[id(page.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    if page.is_public:
        operation["security"] = []
    if page.act is not None:
        operation["x-maia-right"] = {"topic": page.act.topic, "action": page.act.action.value}
    return operation


def _parameters(page: Endpoint, schemas: dict[int, _Json]) -> list[_Json]:
    found: list[_Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in page.parameters
    ]
    if page.question is not None:
        described = msgspec.json.schema(page.question)
        schema = described["$defs"][page.question.__name__]
        wanted = schema.get("required", [])
        found += [
            {"name": name, "in": "query", "required": name in wanted, "schema": one}
            for name, one in schema["properties"].items()
        ]
    if not page.is_public:
        found.append(_header(CREDENTIALS_HEADER, "certificates in base64, with commas between them"))
    if page.takes_key:
        found.append(_header(ONCE_HEADER, "a call with the same key is done once, and answered again"))
    return found


def _header(name: str, description: str) -> _Json:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string"},
    }
