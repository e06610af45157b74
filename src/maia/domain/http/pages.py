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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
from starlette.responses import Response

from maia.api.http_calls import json_response
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
from maia.credentials import Principal, SignedCertificate, principal_from_text
from maia.domain.access.results import AdminAct, LoadedPolicy, Page, Revoked
from maia.domain.access.service import AccessControl
from maia.domain.http import responses as shaping
from maia.domain.http.authentication import BODY_BYTES_MAX, Caller, Gate
from maia.domain.http.turns import Turns
from maia.domain.server.service import DomainService
from maia.events import Instant

if TYPE_CHECKING:
    from maia.domain.server.background import PolicyFile

_PARAMETER: Final = re.compile(r"\{([a-z_]+)\}")
_Asked = TypeVar("_Asked")


@dataclass(frozen=True, slots=True)
class Call(Generic[_Asked]):
    """One call, read and let in."""

    caller: Caller | None
    asked: _Asked
    """The body or the query, as the page says; None for neither."""
    path: Mapping[str, str]
    now: Instant
    pages: Pages

    @property
    def actor(self) -> Principal:
        """Return who calls; public pages do not ask."""
        if self.caller is None:
            raise TypeError("a public page has no caller")
        return self.caller.principal

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
    may: Callable[[AccessControl, Call[Any]], None] | None = None
    """Raises unless the caller may, where `act` does not say all that there is to check."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the path's parameters."""
        return tuple(_PARAMETER.findall(self.path))


ENCODER: Final = msgspec.json.Encoder()
_Row = TypeVar("_Row")
_Struct = TypeVar("_Struct")
# Any: each page has a struct of its own, and the encoder takes them all.
Handler = Callable[[AccessControl, Call[Any]], Any]
"""Answers a page on the service's thread, with the struct that the table says or what was taken away."""


class Pages:
    """What all pages over one domain service share."""

    def __init__(self, service: DomainService, gate: Gate, *, policy: PolicyFile | None = None) -> None:
        """Answer for `service`, whose policy is in a file if there is one."""
        self.service, self.gate, self.policy = service, gate, policy
        self.turns = Turns()

    async def check_act(self, caller: Caller, act: AdminAct, address: str | None) -> None:
        """Raise unless the certificates of a caller allow an act; for those whose body is not read yet."""
        now = self.service.clock()
        async with self.turns.turn(address):
            await self.service.ask(
                lambda access: access.authorised(caller.principal, caller.credentials, act, now)
            )

    async def answer(
        self, endpoint: Endpoint, handler: Handler, call: Call[Any], address: str | None
    ) -> Response:
        """Do what a page does, if the caller may, once for each idempotency key.

        A caller that may not any more is refused, whatever it was answered before. What takes something away
        is answered when a broker has the statement, or none is there.
        """
        caller, taken = call.caller, list[Revoked]()

        def act(access: AccessControl) -> bytes:
            done = handler(access, call)
            if isinstance(done, LoadedPolicy):
                taken.append(done.revoked)
                done = shaping.policy_answer(done)
            elif isinstance(done, Revoked):
                taken.append(done)
                done = shaping.revoked_answer(done)
            return ENCODER.encode(done)

        def job(access: AccessControl) -> bytes:
            if endpoint.act is not None:
                access.authorised(call.actor, call.pool, endpoint.act, call.now)
            if endpoint.may is not None:
                endpoint.may(access, call)
            if caller is None or not caller.once or not endpoint.takes_key:
                return act(access)
            asked = sha256(caller.digest).digest()
            return access.once(caller.once, asked, lambda: act(access), actor=call.actor, now=call.now)

        async with self.turns.turn(address):
            content = await self.service.ask(job)
        if not endpoint.takes_away:
            return json_response(endpoint.answers_with, content)
        is_known = await self.service.announce(taken)
        headers = {PUBLISHED_HEADER: "yes" if is_known else "no"}
        return json_response(200 if is_known else 202, content, headers=headers)


def check_own(
    access: AccessControl, call: Call[Any], principal: Principal, act: AdminAct = AdminAct.READ_REGISTER
) -> None:
    """Raise unless the caller asks about itself, or its certificates allow `act`."""
    if call.actor != principal:
        access.authorised(call.actor, call.pool, act, call.now)


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
