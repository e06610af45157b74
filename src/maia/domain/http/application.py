"""How does a call become an answer? Let in, read, done, written; errors as problem details.

This is the outermost loop of the interface: an unforeseen error ends
here, with a number in the log and nothing in the answer.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from maia.api.endpoints import ENDPOINTS, Endpoint
from maia.api.http_calls import http_interface, problem_response, query_of, read_body, unforeseen
from maia.api.requests import Nothing
from maia.domain.http.authentication import Caller, signed_body
from maia.domain.http.calls import Call, Page, Pages
from maia.domain.http.openapi import openapi_document
from maia.domain.http.pages import PAGES
from maia.errors import BadInput, MaiaError
from maia.net.http_listener import let_in
from maia.net.observer import Records

_Body = TypeVar("_Body")


def application(pages: Pages, records: Records) -> Starlette:
    routes = [_route(PAGES[endpoint], pages, records) for endpoint in ENDPOINTS]
    return http_interface(routes, openapi_document, records)


# Any, below: each call has structs of its own.
def _route(page: Page[Any], pages: Pages, records: Records) -> Route:
    endpoint = page.endpoint

    async def answer(request: Request) -> Response:
        caller: Caller | None = None
        try:
            caller = None if endpoint.is_public else pages.gate.admit(request)
            call = await _read(request, caller, endpoint, pages)
            return await pages.answer(page, call, _address(request))
        except MaiaError as problem:
            # Only a caller that has signed the call is named: others are not known.
            who = {} if caller is None else {"principal": str(caller.principal)}
            return problem_response(problem, records, page=f"{endpoint.method} {endpoint.path}", **who)
        except Exception as problem:  # noqa: BLE001 - the outermost loop of the interface
            return unforeseen(problem, records)

    return Route(endpoint.path, answer, methods=[endpoint.method])


async def _read(
    request: Request, caller: Caller | None, endpoint: Endpoint[Any, Any], pages: Pages
) -> Call[Any]:
    if caller is None:
        body = await read_body(request, 0)
    else:
        if endpoint.has_body and endpoint.right:
            # Asked again where the act is done. Here it keeps strangers from having large bodies read.
            await pages.check_right(caller, endpoint.right, _address(request))
            let_in(request.scope)
        body = await signed_body(request, caller, endpoint.body_max)
    asked: msgspec.Struct = Nothing()
    if endpoint.has_body:
        asked = _decoded(body, endpoint.takes)
    elif endpoint.has_query:
        asked = query_of(request, endpoint.takes)
    path = {name: str(request.path_params[name]) for name in endpoint.parameters}
    return Call(caller, asked, path, pages.service.clock(), pages, _address(request))


def _address(request: Request) -> str | None:
    return None if request.client is None else request.client.host


def _decoded(body: bytes, kind: type[_Body]) -> _Body:
    """Read a JSON body strictly; say where it is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        shown = str(problem).encode("unicode_escape").decode()[:300]
        raise BadInput("INPUT-API-CALL", f"the body is not what this page takes: {shown}") from None
