"""What does every HTTP interface of ours do with a call: how is it read, refused and answered?

A domain's server and a gateway ask here. Everything is bounded before it is read, and an unforeseen error
leaves a number in the log and nothing in the answer.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final, TypeVar, get_origin

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from maia.api.problems import PROBLEM_JSON, SCHEME, ApiProblem, problem_of
from maia.errors import BadInput, MaiaError, Refusal
from maia.net.observer import Records
from maia.wire.api_requests import API_REQUEST_BYTES_MAX

_Query = TypeVar("_Query", bound=msgspec.Struct)

BODY_S: Final = 30.0
"""How long a body may take to arrive."""
_RETRY_AFTER_S: Final = 30
_SAFE: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}


class RequestUnsigned(Refusal):
    """A page that is not public was asked for without a signed request."""

    code = "REQUEST-UNSIGNED"


def http_interface(routes: Iterable[Route], document: Callable[[], object], records: Records) -> Starlette:
    """Serve these routes, the OpenAPI document that describes them, and whether the server is well."""
    described = cache(lambda: msgspec.json.encode(document()))  # made when a caller wants it

    async def openapi(_request: Request) -> Response:
        return json_response(200, described())

    async def health(_request: Request) -> Response:
        return json_response(200, b'{"is_well":true}')

    async def unknown(_request: Request, problem: Exception) -> Response:
        if isinstance(problem, HTTPException) and problem.status_code == 405:
            return problem_response(BadInput("INPUT-API-METHOD", "this page has no such method"), records)
        return problem_response(
            BadInput("INPUT-API-NO-SUCH-PAGE", "there is no such page; /openapi.json lists them"), records
        )

    async def failed(_request: Request, problem: Exception) -> Response:
        return unforeseen(problem, records)

    app = Starlette(
        routes=[*routes, Route("/openapi.json", openapi), Route("/health", health)],
        exception_handlers={404: unknown, 405: unknown, Exception: failed},
    )
    app.router.redirect_slashes = False  # a signed call is for one path, and for no other
    return app


# ------------------------------------------------------------ reading


async def read_body(request: Request, body_max: int) -> bytes:
    """Read a body to its end, in time and within its limit; one that is announced too long, not at all."""
    announced = request.headers.get("content-length", "0")
    is_open = body_max == 0 and "transfer-encoding" in request.headers
    if is_open or (announced.isdecimal() and int(announced) > body_max):
        raise BadInput("INPUT-API-TOO-LARGE", f"a body is larger than the {body_max} bytes that are read")
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                size += len(part)
                if size > body_max:
                    raise BadInput(
                        "INPUT-API-TOO-LARGE", f"a body is larger than the {body_max} bytes that are read"
                    )
                parts.append(part)
    except (TimeoutError, ClientDisconnect):
        raise BadInput("INPUT-API-CALL", "the body did not arrive in time") from None
    return b"".join(parts)


def target_of(request: Request) -> str:
    """Return path and query exactly as they were sent."""
    path, query = request.scope["raw_path"], request.scope["query_string"]
    target = path + (b"?" + query if query else b"")
    try:
        return str(target, "ascii")
    except UnicodeDecodeError:
        raise BadInput("INPUT-API-CALL", "path and query are written in ASCII") from None


def query_of(request: Request, kind: type[_Query]) -> _Query:
    """Read a query strictly: no name twice, unless it has several values; none unknown."""
    several = {one.name for one in msgspec.structs.fields(kind) if get_origin(one.type) is tuple}
    values: dict[str, object] = {}
    for name, value in request.query_params.multi_items():
        if name in values and name not in several:
            raise BadInput("INPUT-API-CALL", "a name of the query came twice")
        before = values.get(name, ())
        values[name] = (*before, value) if isinstance(before, tuple) and name in several else value
    try:
        return msgspec.convert(values, type=kind, strict=False)
    except msgspec.MsgspecError as problem:
        shown = str(problem).encode("unicode_escape").decode()[:300]
        raise BadInput("INPUT-API-CALL", f"the query is not what this page takes: {shown}") from None


def single_headers(request: Request, ours: Iterable[str]) -> Mapping[str, str]:
    """Return headers by name; one of ours that comes twice could be read in two ways."""
    found: dict[str, str] = {}
    for name, value in request.headers.items():
        if name in found and name in ours:
            raise BadInput("INPUT-API-CALL", f"the header `{name}` came twice")
        found[name] = value
    return found


def signed_request_in(header: str) -> bytes:
    """Return the signed request of an `Authorization` header; nothing is read or verified yet."""
    scheme, _, word = header.partition(" ")
    if not header:
        raise RequestUnsigned("this page wants a signed request")
    if scheme.lower() != SCHEME.lower() or len(word) > 2 * API_REQUEST_BYTES_MAX:
        raise RequestUnsigned(f"the `Authorization` header carries `{SCHEME}` and a signed request")
    try:
        return base64.b64decode(word.strip(), validate=True)
    except ValueError:  # also for a character beyond ASCII
        raise RequestUnsigned("the signed request is not written in base64") from None


# ------------------------------------------------------------ answering


def json_response(
    status: int, body: bytes, kind: str = "application/json", *, headers: Mapping[str, str] = {}
) -> Response:
    """Return an answer that no cache keeps and no browser runs."""
    return Response(body, status, {**_SAFE, **headers}, media_type=kind)


def problem_response(problem: MaiaError, records: Records, **fields: str) -> Response:
    """Write a refusal down, with these fields, and return it as problem details."""
    shown = problem_of(problem)
    records.note("refused", {"code": problem.code, **fields})
    headers = {"Retry-After": str(_RETRY_AFTER_S)} if shown.status in (429, 503) else {}
    if shown.status == 401:
        headers["WWW-Authenticate"] = SCHEME
    return json_response(shown.status, msgspec.json.encode(shown), PROBLEM_JSON, headers=headers)


def incident_of(problem: Exception, records: Records) -> str:
    """Write an error down that is a mistake of ours, and return its number: its text can hold anything."""
    incident = os.urandom(6).hex()
    trace, where = problem.__traceback__, ""
    while trace is not None:
        where, trace = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}", trace.tb_next
    records.note("failed", {"incident": incident, "problem": type(problem).__name__, "page": where})
    return incident


def unforeseen(problem: Exception, records: Records) -> Response:
    """Write an error down that is a mistake of ours, and say no more than its number."""
    incident = incident_of(problem, records)
    shown = ApiProblem(
        "urn:maia:error:INTERNAL", "a mistake of ours", 500, "INTERNAL", "something went wrong here", incident
    )
    return json_response(500, msgspec.json.encode(shown), PROBLEM_JSON)
