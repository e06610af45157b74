"""How does a call become an answer? Let in, read, done, written; errors as problem details.

This is the outermost loop of the interface: an unforeseen error ends
here, with a number in the log and nothing in the answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from maia.api.problems import PROBLEM_JSON, ApiProblem, BadCall, NoSuchPage, problem_of
from maia.domain.http import pages_domain, pages_identity, pages_register, pages_rights, pages_tpm
from maia.domain.http.authentication import Caller, read_body, signed_body
from maia.domain.http.openapi import openapi_document
from maia.domain.http.pages import Call, Endpoint, Handler, Pages
from maia.errors import BadInput, MaiaError
from maia.net.observer import Records

__all__ = ["ENDPOINTS", "application"]

_ENCODER: Final = msgspec.json.Encoder()
_SAFE: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}
_RETRY_AFTER_S: Final = 30


class WrongMethod(BadInput):
    """A page was asked for with a method that it does not have."""

    code = "INPUT-API-METHOD"


ENDPOINTS: Final[Mapping[Endpoint, Handler]] = {
    **pages_domain.PAGES,
    **pages_rights.PAGES,
    **pages_register.PAGES,
    **pages_identity.PAGES,
    **pages_tpm.PAGES,
}
"""Every page, in the order in which the OpenAPI document lists them."""

_Body = TypeVar("_Body")


def application(pages: Pages, records: Records) -> Starlette:
    """Return the interface as an ASGI application."""
    document = _ENCODER.encode(openapi_document(ENDPOINTS))
    routes = [_route(endpoint, handler, pages, records) for endpoint, handler in ENDPOINTS.items()]

    async def openapi(_request: Request) -> Response:
        return _response(200, document)

    async def health(_request: Request) -> Response:
        return _response(200, b'{"is_well":true}')

    async def unknown(_request: Request, problem: Exception) -> Response:
        if isinstance(problem, HTTPException) and problem.status_code == 405:
            return _refused(WrongMethod("this page has no such method"), records)
        return _refused(NoSuchPage("there is no such page; /openapi.json lists them"), records)

    async def unforeseen(_request: Request, problem: Exception) -> Response:
        return _unforeseen(problem, records)

    app = Starlette(
        routes=[*routes, Route("/openapi.json", openapi), Route("/health", health)],
        exception_handlers={404: unknown, 405: unknown, Exception: unforeseen},
    )
    app.router.redirect_slashes = False  # a signed call is for one path, and for no other
    return app


def _route(endpoint: Endpoint, handler: Handler, pages: Pages, records: Records) -> Route:
    async def answer(request: Request) -> Response:
        caller: Caller | None = None
        try:
            caller = None if endpoint.is_public else pages.gate.admit(request)
            call = await _read(request, caller, endpoint, pages)
            done = await handler(pages, call)
            body = done.content if isinstance(done.content, bytes) else _ENCODER.encode(done.content)
            return _response(done.status, body, headers=done.headers)
        except MaiaError as problem:
            return _refused(problem, records, page=f"{endpoint.method} {endpoint.path}", caller=caller)
        except Exception as problem:  # noqa: BLE001 - the outermost loop of the interface
            return _unforeseen(problem, records)

    return Route(endpoint.path, answer, methods=[endpoint.method])


async def _read(request: Request, caller: Caller | None, endpoint: Endpoint, pages: Pages) -> Call:
    if caller is None:
        body = await read_body(request, 0)
    else:
        if endpoint.body is not None and endpoint.act is not None:
            # Asked again where the act is done. Here it keeps strangers from having large bodies read.
            await pages.check_act(caller, endpoint.act)
        body = await signed_body(request, caller, endpoint.body_max)
    return Call(
        caller,
        None if endpoint.body is None else _decoded(body, endpoint.body),
        None
        if endpoint.question is None
        else _question(request.query_params.multi_items(), endpoint.question),
        {name: str(request.path_params[name]) for name in endpoint.parameters},
        pages.service.clock(),
        endpoint.act,
    )


def _decoded(body: bytes, kind: type[_Body]) -> _Body:
    """Read a JSON body strictly; say where it is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        shown = str(problem).encode("unicode_escape").decode()[:300]
        raise BadCall(f"the body is not what this page takes: {shown}") from None


def _question(pairs: list[tuple[str, str]], kind: type[_Body]) -> _Body:
    """Read a query strictly: no name twice, none unknown."""
    values = dict(pairs)
    if len(values) != len(pairs):
        raise BadCall("a name of the query came twice")
    try:
        return msgspec.convert(values, type=kind, strict=False)
    except msgspec.MsgspecError as problem:
        shown = str(problem).encode("unicode_escape").decode()[:300]
        raise BadCall(f"the query is not what this page takes: {shown}") from None


def _refused(
    problem: MaiaError, records: Records, *, page: str = "", caller: Caller | None = None
) -> Response:
    shown = problem_of(problem)
    # Only a caller that has signed the call is named: others are not known.
    who = {} if caller is None else {"principal": str(caller.principal)}
    records.note("refused", {"code": problem.code, "page": page, **who})
    headers = {"Retry-After": str(_RETRY_AFTER_S)} if shown.status in (429, 503) else {}
    if shown.status == 401:
        headers["WWW-Authenticate"] = "Maia"
    return _response(shown.status, _ENCODER.encode(shown), PROBLEM_JSON, headers=headers)


def _unforeseen(problem: Exception, records: Records) -> Response:
    # The number is all that leaves: the text of a strange error can hold anything.
    incident = os.urandom(6).hex()
    trace, where = problem.__traceback__, ""
    while trace is not None:
        where, trace = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}", trace.tb_next
    records.note("failed", {"incident": incident, "problem": type(problem).__name__, "page": where})
    shown = ApiProblem(
        "urn:maia:error:INTERNAL", "a mistake of ours", 500, "INTERNAL", "something went wrong here", incident
    )
    return _response(500, _ENCODER.encode(shown), PROBLEM_JSON)


def _response(
    status: int, body: bytes, kind: str = "application/json", *, headers: Mapping[str, str] = {}
) -> Response:
    return Response(body, status, {**_SAFE, **headers}, media_type=kind)
