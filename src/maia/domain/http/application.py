"""How does a call become an answer? Let in, read, done, written; errors as problem details.

This is the outermost loop of the interface: an unforeseen error ends
here, with a number in the log and nothing in the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from maia.api.http_calls import WrongMethod, json_response, problem_response, query_of, read_body, unforeseen
from maia.api.problems import BadCall, NoSuchPage
from maia.domain.http import pages_domain, pages_identity, pages_register, pages_rights
from maia.domain.http.authentication import Caller, signed_body
from maia.domain.http.pages import ENCODER, Call, Endpoint, Handler, Pages, openapi_document
from maia.errors import MaiaError
from maia.net.http_listener import let_in
from maia.net.observer import Records

ENDPOINTS: Final[Mapping[Endpoint, Handler]] = {
    **pages_domain.PAGES,
    **pages_rights.PAGES,
    **pages_register.PAGES,
    **pages_identity.PAGES,
}
"""Every page, in the order in which the OpenAPI document lists them."""

_Body = TypeVar("_Body")


def application(pages: Pages, records: Records) -> Starlette:
    document = ENCODER.encode(openapi_document(ENDPOINTS))
    routes = [_route(endpoint, handler, pages, records) for endpoint, handler in ENDPOINTS.items()]

    async def openapi(_request: Request) -> Response:
        return json_response(200, document)

    async def health(_request: Request) -> Response:
        return json_response(200, b'{"is_well":true}')

    async def unknown(_request: Request, problem: Exception) -> Response:
        if isinstance(problem, HTTPException) and problem.status_code == 405:
            return _refused(WrongMethod("this page has no such method"), records)
        return _refused(NoSuchPage("there is no such page; /openapi.json lists them"), records)

    async def failed(_request: Request, problem: Exception) -> Response:
        return unforeseen(problem, records)

    app = Starlette(
        routes=[*routes, Route("/openapi.json", openapi), Route("/health", health)],
        exception_handlers={404: unknown, 405: unknown, Exception: failed},
    )
    app.router.redirect_slashes = False  # a signed call is for one path, and for no other
    return app


def _route(endpoint: Endpoint, handler: Handler, pages: Pages, records: Records) -> Route:
    async def answer(request: Request) -> Response:
        caller: Caller | None = None
        try:
            caller = None if endpoint.is_public else pages.gate.admit(request)
            call = await _read(request, caller, endpoint, pages)
            return await pages.answer(endpoint, handler, call, _address(request))
        except MaiaError as problem:
            return _refused(problem, records, page=f"{endpoint.method} {endpoint.path}", caller=caller)
        except Exception as problem:  # noqa: BLE001 - the outermost loop of the interface
            return unforeseen(problem, records)

    return Route(endpoint.path, answer, methods=[endpoint.method])


async def _read(request: Request, caller: Caller | None, endpoint: Endpoint, pages: Pages) -> Call[Any]:
    if caller is None:
        body = await read_body(request, 0)
    else:
        if endpoint.body is not None and endpoint.act is not None:
            # Asked again where the act is done. Here it keeps strangers from having large bodies read.
            await pages.check_act(caller, endpoint.act, _address(request))
            let_in(request.scope)
        body = await signed_body(request, caller, endpoint.body_max)
    asked: msgspec.Struct | None = None
    if endpoint.body is not None:
        asked = _decoded(body, endpoint.body)
    elif endpoint.question is not None:
        asked = query_of(request, endpoint.question)
    path = {name: str(request.path_params[name]) for name in endpoint.parameters}
    return Call(caller, asked, path, pages.service.clock(), pages)


def _address(request: Request) -> str | None:
    return None if request.client is None else request.client.host


def _decoded(body: bytes, kind: type[_Body]) -> _Body:
    """Read a JSON body strictly; say where it is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        shown = str(problem).encode("unicode_escape").decode()[:300]
        raise BadCall(f"the body is not what this page takes: {shown}") from None


def _refused(
    problem: MaiaError, records: Records, *, page: str = "", caller: Caller | None = None
) -> Response:
    # Only a caller that has signed the call is named: others are not known.
    who = {} if caller is None else {"principal": str(caller.principal)}
    return problem_response(problem, records, page=page, **who)
