"""What can HTTP clients ask of a gateway, and how does a call become an answer?

    POST   /v1/events?topic=plates/Soho             publish the body
    GET    /v1/events?topic=plates/%23&name=night    read events as they come
    DELETE /v1/events?topic=plates/%23&name=night    give a durable subscription up

Topics are those of the gateway's table, as for MQTT clients. The OpenAPI document is made from the same
pages as the routes. Refusals are problem details with Maia's codes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from maia.api.http_calls import (
    http_interface,
    json_response,
    problem_response,
    query_of,
    read_body,
    single_headers,
    unforeseen,
)
from maia.api.openapi import Json, Schemas, content, document, header_parameter, query_parameters
from maia.api.problems import SCHEME
from maia.errors import BadInput, MaiaError, Unavailable
from maia.gateway.server.config import PreparedGateway
from maia.gateway.server.http.callers import Callers
from maia.gateway.server.http.streams import EventData, EventStream
from maia.net.observer import Records

_ANSWER_S: Final = 30.0
_TOPIC_MAX: Final = 4096
_EVENT_STREAM: Final = "text/event-stream"
_STREAM_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}
_CURLS_OWN: Final = "application/x-www-form-urlencoded"
"""What curl says of every body: nothing about it."""
_Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
_Topics = tuple[Annotated[str, Meta(min_length=1, max_length=_TOPIC_MAX)], ...]


class PublicationQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an event goes."""

    topic: _Topics
    """A topic of the gateway's table; a level that holds an attribute is itself percent-encoded.

    Several are of one row, whose tree was declared for publications on several.
    """


class ReadingQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events a caller reads."""

    topic: _Topics
    """An MQTT topic filter, or several."""
    name: _Name | None = None
    """With a name, the subscription is durable, and `Last-Event-ID` says where to go on."""


class Durable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which durable subscription is given up."""

    topic: _Topics
    name: _Name


class About(msgspec.Struct, frozen=True):
    """What a caller needs that signs its calls."""

    instance: str
    """This run of the gateway, in hexadecimal digits: calls are signed for it."""


class Accepted(msgspec.Struct, frozen=True):
    """The broker has taken the event on; with `log.durable`, it is on disk."""

    accepted: int


@dataclass(frozen=True, slots=True)
class _Page:
    """One page: for the route and for the OpenAPI document."""

    method: str
    path: str
    summary: str
    answer: type[msgspec.Struct]
    handle: Callable[[HttpDoor, Request], Awaitable[Response]]
    query: type[msgspec.Struct] | None = None
    kind: str = "application/json"
    has_body: bool = False
    is_public: bool = False
    resumes: bool = False


class HttpDoor:
    """The pages of one gateway."""

    def __init__(self, prepared: PreparedGateway, records: Records) -> None:
        """Serve accounts of the data folder; nothing listens yet."""
        self.callers = Callers(prepared)
        self._config, self._table, self._records = prepared.config, prepared.table, records
        self._shares = prepared.shares
        self._published = 0
        self._delivered = 0

    # -------------------------------------------------------- the pages

    async def about(self, request: Request) -> Response:
        """Say which run of the gateway this is."""
        await read_body(request, 0)
        return _answer(About(self.callers.instance.hex()))

    async def publish(self, request: Request) -> Response:
        """Publish the body as the caller's account; answer when the broker has."""
        with self.callers.calling(request) as caller:
            query = query_of(request, PublicationQuery)
            body = await caller.body(request, self._config.limits.packet_bytes)
            said = request.headers.get("content-type")
            content_type = None if said == _CURLS_OWN else said
            number, columns, left = self._table.on_topics(query.topic, body, content_type)
            answer: asyncio.Future[MaiaError | None] = asyncio.get_running_loop().create_future()
            unanswered = [left]

            def answered(answers: list[tuple[int, int, MaiaError | None]]) -> None:
                unanswered[0] -= sum(rows for _, rows, _ in answers)
                problem = next((one for _, _, one in answers if one is not None), None)
                if not answer.done() and (problem is not None or unanswered[0] <= 0):
                    answer.set_result(problem)

            async with self.callers.client_of(caller) as client:
                if self._table.rows[number].is_retained:
                    # Brokers remember a publisher's last events for as long as it is connected.
                    client.keep_s = float(self._config.retain_s)
                client.upstream.publish(number, columns, left, 0, answered, is_one=left > 1)
                asyncio.get_running_loop().call_soon(client.upstream.send)  # with those of other calls
                try:
                    async with asyncio.timeout(_ANSWER_S):
                        problem = await answer
                except TimeoutError:
                    raise Unavailable(
                        "UNAVAILABLE-GATEWAY-NO-ANSWER",
                        "the broker has not answered in time; the event may be published",
                    ) from None
        if problem is not None:
            raise problem
        self._published += 1
        return _answer(Accepted(1))

    async def read(self, request: Request) -> Response:
        """Send events as they come, for as long as the caller reads and has the right."""
        async with AsyncExitStack() as stack:
            caller = stack.enter_context(self.callers.calling(request))
            query = query_of(request, ReadingQuery)
            await caller.body(request, 0)
            shown = single_headers(request, ("last-event-id",)).get("last-event-id")
            client = await stack.enter_async_context(self.callers.client_of(caller))
            unread = self._shares.reader(caller.account)
            stream = EventStream(client.upstream, self._table, query.topic, query.name, shown, unread)
            await self.callers.begin(client, stream)
            stack.callback(self.callers.ended, caller, client, stream)
            await stream.open()
            # From here on the response owns what was opened, and closes it when it has ended.
            opened = stack.pop_all()

        async def sent() -> AsyncIterator[bytes]:
            async with opened:
                try:
                    async for chunk in stream.chunks():
                        yield chunk
                finally:
                    self._delivered += stream.events

        return _Streaming(sent(), opened)

    async def forget(self, request: Request) -> Response:
        """Give a durable subscription up, with its place in the log."""
        with self.callers.calling(request) as caller:
            query = query_of(request, Durable)
            await caller.body(request, 0)
            async with self.callers.client_of(caller) as client:
                unread = self._shares.reader(caller.account)
                stream = EventStream(client.upstream, self._table, query.topic, query.name, None, unread)
                await self.callers.begin(client, stream)
                try:
                    await stream.forget()
                finally:
                    self.callers.ended(caller, client, stream)
        return _answer(Accepted(1))

    # -------------------------------------------------------- the application

    def application(self) -> Starlette:
        """Return the pages as an ASGI application."""
        paths: dict[str, dict[str, _Page]] = {}
        for page in PAGES:
            paths.setdefault(page.path, {})[page.method] = page
        routes = [
            Route(path, self._route(pages), methods=[*pages, "OPTIONS"]) for path, pages in paths.items()
        ]
        return http_interface(routes, openapi_document, self._records)

    def _route(self, pages: Mapping[str, _Page]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            origin = None
            try:
                origin = self.callers.check_origin(request)
                # Starlette serves HEAD wherever it serves GET: a stream has no head of its own.
                page = pages.get(request.method)
                if page is not None:
                    response = await page.handle(self, request)
                elif request.method == "OPTIONS":
                    response = Response(status_code=204)
                else:
                    raise BadInput("INPUT-API-METHOD", "this page has no such method")
            except MaiaError as problem:
                response = problem_response(
                    problem, self._records, page=f"{request.method} {request.url.path}"
                )
            except Exception as problem:  # noqa: BLE001 - the outermost loop of the interface
                response = unforeseen(problem, self._records)
            if origin is not None:
                response.headers["Access-Control-Allow-Origin"] = origin
                response.headers["Access-Control-Allow-Methods"] = ", ".join(pages)
                response.headers["Access-Control-Allow-Headers"] = (
                    "Authorization, Content-Type, Last-Event-ID"
                )
                response.headers["Vary"] = "Origin"
            return response

        return answer

    def status(self) -> dict[str, int]:
        """Return how much there is, without names."""
        return {**self.callers.status(), "http_published": self._published, "http_delivered": self._delivered}

    async def stop(self) -> None:
        """End every stream with a reason, and say goodbye to the broker."""
        await self.callers.stop(
            Unavailable("UNAVAILABLE-GATEWAY-STOPPING", "the gateway is stopping; come back with the last id")
        )


class _Streaming(StreamingResponse):
    """A stream that lets everything go also if its first byte was never asked for."""

    def __init__(self, content: AsyncIterator[bytes], opened: AsyncExitStack) -> None:
        super().__init__(content, media_type=_EVENT_STREAM, headers=_STREAM_HEADERS)
        self._opened = opened

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._opened.aclose()


def _answer(content: msgspec.Struct) -> Response:
    return json_response(200, msgspec.json.encode(content))


PAGES: Final = (
    _Page("GET", "/v1", "The run for which calls are signed", About, HttpDoor.about, is_public=True),
    _Page(
        "POST", "/v1/events", "Publish an event", Accepted, HttpDoor.publish, PublicationQuery, has_body=True
    ),
    _Page(
        "GET", "/v1/events", "Read events as they come", EventData, HttpDoor.read, ReadingQuery,
        _EVENT_STREAM, resumes=True,
    ),
    _Page("DELETE", "/v1/events", "Give a durable subscription up", Accepted, HttpDoor.forget, Durable),
)  # fmt: skip


# ------------------------------------------------------------ for programs


def openapi_document() -> Json:
    """Return the OpenAPI 3.1 document of the pages."""
    signed = "the call, signed by the client's own key for its account key, in base64"
    security = {
        "token": {"type": "http", "scheme": "basic", "description": "an account's name and its token"},
        "key": {"type": "mutualTLS", "description": "the TLS certificate of the client's own key"},
        "signed": {"type": "http", "scheme": SCHEME.lower(), "description": signed},
    }
    description = "Publish and read events as an account."
    return document("Maia gateway", description, PAGES, [page.answer for page in PAGES], _operation, security)


def _operation(page: _Page, schemas: Schemas) -> Json:
    shown = "each event's `data`" if page.kind == _EVENT_STREAM else "the answer"
    resumed = header_parameter("Last-Event-ID", "the `id` of the last event that the caller has had")
    queried = [] if page.query is None else query_parameters(page.query)
    operation: Json = {
        "operationId": f"{page.handle.__name__}",
        "parameters": [*queried, *([resumed] if page.resumes else [])],
        "responses": {"200": {"description": shown, **content(page.kind, schemas[page.answer])}},
    }
    if page.has_body:
        operation["requestBody"] = {
            "description": "the payload, in the form that the topic's row of the table says",
            "content": {"application/json": {}, "application/cbor": {}, "*/*": {}},
        }
    return operation
