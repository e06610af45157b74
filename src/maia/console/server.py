"""How does the console answer? Sign-in, pages, their JSON twins and their streams.

Nothing is answered to a browser that names another host (DNS rebinding), to a session that is
not valid, or to a principal that the domain does not let read: a stream asks again for every line.
No page runs a script that is not of this console, is framed, or links elsewhere (A102).
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from maia.api.http_calls import RequestUnsigned, incident_of, read_body, signed_request_in
from maia.clock import system_now
from maia.console.config import ConsoleConfig, HeldProfile
from maia.console.network import Network
from maia.console.pages import PAGES
from maia.console.pages.page import (
    Data,
    Element,
    Node,
    Page,
    Visit,
    el,
    prose,
    shape_and_texts,
    to_html,
)
from maia.console.pages.revoke import revoke
from maia.console.pages.streams import events_of
from maia.console.pages.what_if import replay
from maia.console.principal import SignedIn
from maia.console.sessions import BrowserSession, NotSignedIn, Sessions
from maia.console.works import NoSuchThing, Works
from maia.credentials import Principal
from maia.errors import BadInput, MaiaError, Refusal, Unavailable
from maia.net.http_listener import let_in, listening
from maia.net.observer import Records
from maia.net.process import until_told_to_stop
from maia.net.telemetry import Telemetry
from maia.private_files import replace_file
from maia.wire.api_requests import (
    INSTANCE_BYTES,
    ApiCall,
    ApiRequest,
    api_request_from_bytes,
    api_request_to_bytes,
    sign_api_request,
    verify_api_request,
)
from maia.wire.replays import NONCE_BYTES, ReplayMemory

OPEN_PATH: Final = "/link"
COOKIE: Final = "maia-console"
BROWSER_COOKIE: Final = "maia-console-link"
LIVE_S: Final = 1.0
"""How often the numbers of a page are sent."""
STREAMS_MAX: Final = 64
STREAMS_PER_SESSION: Final = 6
BODY_MAX: Final = 64 << 10
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with none at all, a form would not say from where it comes
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATUS: Final = (
    (NotSignedIn, 401),
    (RequestUnsigned, 401),
    (NoSuchThing, 404),
    (Refusal, 403),
    (Unavailable, 503),
    (BadInput, 400),
)
_STATIC: Final = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}

_Handler = Callable[[Request], Awaitable[Response]]


class Console:
    """One run of a console."""

    def __init__(self, config: ConsoleConfig, records: Records) -> None:
        """Serve the holders of the profiles in `config`."""
        self.config, self.records = config, records
        self.sessions = Sessions(os.urandom)
        self.instance = os.urandom(INSTANCE_BYTES)
        self.hosts: frozenset[str] = frozenset()
        self._memory = ReplayMemory(per_principal_max=64)
        self._acting: dict[Principal, SignedIn] = {}
        self._networks: dict[tuple[Path, ...], Network] = {}
        self._open: dict[bytes, int] = {}
        self.works = Works()

    @asynccontextmanager
    async def answering_at(self, address: str) -> AsyncIterator[str]:
        """Say in each profile's folder where the console answers, while the body runs."""
        port, public = address.rpartition(":")[2], self.config.public or address
        self.hosts = frozenset({public.lower(), f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"})
        url = f"{'http' if self.config.tls is None else 'https'}://{public}"
        doors = [one.door for one in self.config.held.values()]
        trusted = None if self.config.tls is None else str(self.config.tls[0].resolve())
        said = json.dumps({"address": url, "instance": self.instance.hex(), "tls_certificate": trusted})
        for door in doors:
            replace_file(door, said.encode())
        try:
            yield url
        finally:
            for door in doors:
                with suppress(OSError):
                    if door.read_text(encoding="ascii") == said:
                        door.unlink()
            await self.works.close()
            for acting in self._acting.values():
                acting.close()

    def application(self) -> Starlette:
        """Return the console as an ASGI application."""
        routes = [
            Route("/", self._answered(self._home)),
            Route(OPEN_PATH, self._answered(self._new_link), methods=["POST"]),
            Route("/open", self._answered(self._open_link), methods=["GET"]),
            Route("/open", self._answered(self._sign_in), methods=["POST"]),
            Route("/sign-out", self._answered(self._sign_out), methods=["POST"]),
            Route("/revoke", self._answered(self._revoke), methods=["POST"]),
            Route("/what-if", self._answered(self._replay), methods=["POST"]),
            Route("/streams/events", self._answered(self._stream)),
            *(Route(f"/static/{one}", self._answered(_static(one, kind))) for one, kind in _STATIC.items()),
        ]
        for page in PAGES.values():
            routes.append(Route(f"/{page.path}", self._answered(self._page(page))))
            routes.append(Route(f"/{page.path}.json", self._answered(self._twin(page))))
            if page.is_live:
                routes.append(Route(f"/{page.path}/events", self._answered(self._live(page))))

        async def missing(_request: Request) -> Response:
            raise NoSuchThing("there is no such page of the console")

        async def not_found(request: Request, _problem: Exception) -> Response:
            return await self._answered(missing)(request)

        app = Starlette(routes=routes, exception_handlers={404: not_found, 405: not_found})
        app.router.redirect_slashes = False
        return app

    # ------------------------------------------------------------ around every answer

    def _answered(self, handler: _Handler) -> _Handler:
        async def answer(request: Request) -> Response:
            try:
                response = await self._checked(request, handler)
            except MaiaError as problem:
                self.records.note("refused", {"code": problem.code, "page": request.url.path[:100]})
                response = await self._refused(request, problem)
            except Exception as problem:  # noqa: BLE001 - the outermost loop of the console
                incident = incident_of(problem, self.records)
                wrong = Unavailable("CONSOLE-INCIDENT", f"something went wrong here (incident {incident})")
                response = await self._refused(request, wrong)
            response.headers.update(_HEADERS)
            return response

        return answer

    async def _refused(self, request: Request, problem: MaiaError) -> Response:
        """Answer with a problem: as JSON where JSON was asked for, else as a page with the reader's menu."""
        status = next((number for kind, number in _STATUS if isinstance(problem, kind)), 500)
        path = request.url.path
        if path.endswith((".json", "/events")) or path == OPEN_PATH:
            return _json(problem.as_record(), status)
        visit = None
        with suppress(MaiaError):
            visit = await self._visit(request)
        meaning = el("a", "What does this mean?", href=f"/why?refusal={problem.code}")
        body: list[Node] = [
            el("p", prose(problem.message), role="alert"),
            el("p", el("code", problem.code), " ", meaning if visit is not None else None),
        ]
        return _html("This cannot be shown", body, visit, status=status)

    async def _checked(self, request: Request, handler: _Handler) -> Response:
        if request.headers.get("host", "").lower() not in self.hosts:
            return Response("ask by the name of this machine\n", 421)
        if request.method == "POST" and request.url.path != OPEN_PATH:
            # Beside the token of the form, which every change needs.
            origin = request.headers.get("origin", "")
            if origin.partition("://")[2].lower() != request.headers["host"].lower():
                raise Refusal(
                    "CONSOLE-NOT-FROM-THIS-PAGE", "this change did not come from a page of this console"
                )
        return await handler(request)

    def _visited(self, request: Request) -> tuple[BrowserSession, SignedIn]:
        session = self.sessions.session(request.cookies.get(COOKIE), system_now())
        let_in(request.scope)
        return session, self._acting_as(session.principal)

    def _acting_as(self, principal: Principal) -> SignedIn:
        if principal not in self._acting:
            self._acting[principal] = SignedIn(self.config.held[principal])
        return self._acting[principal]

    async def _visit(self, request: Request, page: Page | None = None) -> Visit:
        session, acting = self._visited(request)
        acts = await acting.acts()
        if page is not None and page.act is not None and page.act not in acts:
            raise Refusal(
                "CONSOLE-NOT-ALLOWED",
                f"this page is for those who may `{page.act}`, and your certificates do not say so",
            )
        brokers = acting.held.brokers
        network = self._networks.setdefault(brokers, Network(brokers))
        return Visit(acting, session, network, acts, _query(request), system_now(), self.works)

    # ------------------------------------------------------------ signing in and out

    async def _new_link(self, request: Request) -> Response:
        """Answer `maia console open`: a link for the key that has signed the call."""
        signed = api_request_from_bytes(signed_request_in(request.headers.get("authorization", "")))
        if signed.signer not in self.config.held:
            raise Refusal("CONSOLE-NOT-ALLOWED", "this console does not hold the profile of that key")
        call = ApiCall.of("POST", OPEN_PATH, body=b"", credentials=b"", once="")
        verified = verify_api_request(
            signed,
            call=call,
            audience=signed.signer,
            instance=self.instance,
            at=system_now(),
            memory=self._memory,
        )
        secret = self.sessions.new_link(verified.signer, system_now())
        return _json({"path": f"/open?link={secret}"})

    async def _open_link(self, request: Request) -> Response:
        secret = request.query_params.get("link", "")[:256]
        principal, browser = self.sessions.open_link(
            secret, request.cookies.get(BROWSER_COOKIE), system_now()
        )
        held = self.config.held[principal]
        body: list[Node] = [
            el("p", "You are about to sign in as ", el("b", held.profile.name), "."),
            el("p", el("code", str(principal))),
            el("form", el("input", type="hidden", name="link", value=secret),
               el("button", f"Sign in as {held.profile.name}"), action="/open", method="post"),
        ]  # fmt: skip
        response = _html("Sign in", body, None)
        self._set_cookie(response, BROWSER_COOKIE, browser)
        return response

    async def _sign_in(self, request: Request) -> Response:
        form = await _form(request)
        session, cookie = self.sessions.sign_in(
            form.get("link", ""), request.cookies.get(BROWSER_COOKIE), system_now()
        )
        self.records.note("signed-in", {"principal": str(session.principal)})
        response = RedirectResponse("/", 303)
        response.delete_cookie(BROWSER_COOKIE)
        self._set_cookie(response, COOKIE, cookie)
        return response

    def _set_cookie(self, response: Response, name: str, value: str) -> None:
        is_tls = self.config.tls is not None
        response.set_cookie(name, value, httponly=True, samesite="strict", secure=is_tls, path="/")

    async def _sign_out(self, request: Request) -> Response:
        session, _ = self._visited(request)
        self.sessions.check_form(session, (await _form(request)).get("token", ""))
        self.sessions.sign_out(session)
        response = _html(
            "Signed out", [el("p", "`maia console open` prints a link that signs you in.")], None
        )
        response.delete_cookie(COOKIE)
        return response

    # ------------------------------------------------------------ pages

    async def _home(self, request: Request) -> Response:
        visit = await self._visit(request)
        first = next(one for one in _menu(visit.acts))
        return RedirectResponse(f"/{first.path}", 303)

    def _page(self, page: Page) -> _Handler:
        async def answer(request: Request) -> Response:
            visit = await self._visit(request, page)
            body = _body(page, await page.data(visit), visit)
            source = f"/{page.path}/events?{request.url.query}" if page.is_live else None
            return _html(page.title, [el("div", body, id="live", data_live_source=source)], visit, page)

        return answer

    def _twin(self, page: Page) -> _Handler:
        async def answer(request: Request) -> Response:
            visit = await self._visit(request, page)
            return _json(await page.data(visit))

        return answer

    async def _revoke(self, request: Request) -> Response:
        visit = await self._visit(request, PAGES["revoke"])
        form = await _form(request)
        self.sessions.check_form(visit.session, form.get("token", ""))
        number = await revoke(visit, form)
        return RedirectResponse(f"/revocation?id={number}", 303)

    async def _replay(self, request: Request) -> Response:
        visit = await self._visit(request, PAGES["what-if"])
        form = await _form(request)
        self.sessions.check_form(visit.session, form.get("token", ""))
        return RedirectResponse(f"/replay?id={await replay(visit, form)}", 303)

    # ------------------------------------------------------------ streams

    def _live(self, page: Page) -> _Handler:
        async def answer(request: Request) -> Response:
            session, _ = self._visited(request)
            await self._visit(request, page)  # refused as an answer of its own, and not as a line of a stream

            async def lines() -> AsyncIterator[str]:
                before, known = "", dict[str, str]()
                while True:
                    visit = await self._visit(request, page)
                    drawn = el("div", _body(page, await page.data(visit), visit))
                    shape, now = shape_and_texts(drawn)
                    news = {key: text for key, text in now.items() if known.get(key) != text}
                    if shape != before:
                        inner = "".join(map(to_html, drawn.children))
                        yield _event({"html": inner}) if before else _event({"cells": now})
                    else:
                        yield _event({"cells": news}) if news else ": nothing new\n\n"
                    before, known = shape, now
                    await asyncio.sleep(LIVE_S)

            return self._streaming(session, lines())

        return answer

    async def _stream(self, request: Request) -> Response:
        visit = await self._visit(request, PAGES["streams"])

        async def is_signed_in() -> bool:
            with suppress(NotSignedIn):
                self._visited(request)
                return True
            return False

        return self._streaming(visit.session, events_of(visit, is_signed_in))

    def _streaming(self, session: BrowserSession, lines: AsyncIterator[str]) -> Response:
        if self._open.get(session.id, 0) >= STREAMS_PER_SESSION or sum(self._open.values()) >= STREAMS_MAX:
            raise Unavailable(
                "CONSOLE-STREAMS", "too many pages are open that change by themselves; close one"
            )
        self._open[session.id] = self._open.get(session.id, 0) + 1

        async def bounded() -> AsyncIterator[str]:
            try:
                async for line in lines:
                    yield line
            except MaiaError as problem:
                yield _event({"problem": problem.message, "code": problem.code}, kind="ended")
            finally:
                self._open[session.id] -= 1
                if not self._open[session.id]:
                    del self._open[session.id]
                close = getattr(lines, "aclose", None)
                if close is not None:
                    await close()

        return StreamingResponse(bounded(), media_type="text/event-stream")


# ------------------------------------------------------------ what an answer looks like


def _menu(acts: frozenset[str]) -> list[Page]:
    return [one for one in PAGES.values() if one.is_in_menu and (one.act is None or one.act in acts)]


def _body(page: Page, data: Data, visit: Visit) -> Sequence[Node]:
    """Draw a page; its forms that change something get the token of the session."""
    return [_with_token(one, visit.session.token) for one in page.view(data)]


def _with_token(node: Node, token: str) -> Node:
    if not isinstance(node, Element):
        return node
    children = tuple(_with_token(one, token) for one in node.children)
    if node.name == "form" and ("method", "post") in node.attributes:
        children = (el("input", type="hidden", name="token", value=token), *children)
    return Element(node.name, node.attributes, children)


def _html(
    title: str, body: Sequence[Node], visit: Visit | None, page: Page | None = None, *, status: int = 200
) -> Response:
    head: list[Node] = []
    if visit is not None:
        links = [
            el("a", one.title, href=f"/{one.path}", aria_current="page" if one is page else None)
            for one in _menu(visit.acts)
        ]
        out = _with_token(el("form", el("button", "Sign out"), action="/sign-out", method="post"),
                          visit.session.token)  # fmt: skip
        name = visit.held.profile.name
        head = [
            el("nav", links, aria_label="Pages"),
            el(
                "div",
                el("span", f"signed in as {name}", title=str(visit.acting.principal)),
                out,
                class_="who",
            ),
        ]
    document = el(
        "html",
        el(
            "head",
            el("meta", charset="utf-8"),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="color-scheme", content="light dark"),
            el("title", f"{title} · Maia"),
            el("link", rel="stylesheet", href="/static/console.css"),
            el("link", rel="icon", href="/static/icon.svg"),
            el("script", src="/static/console.js", defer=True),
        ),
        el(
            "body",
            el("a", "Skip to the page", href="#main", class_="skip"),
            el("header", el("strong", "Maia"), head),
            el("main", el("h1", title), body, id="main"),
            el("p", role="status", id="status"),
        ),
        lang="en",
    )
    return Response("<!doctype html>" + to_html(document), status, media_type="text/html")


def _json(data: Mapping[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(data, ensure_ascii=False), status, media_type="application/json")


def _event(data: Mapping[str, Any], kind: str = "message") -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def _static(name: str, kind: str) -> _Handler:
    data = (files("maia.console") / "static" / name).read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(data, media_type=kind)

    return answer


def _query(request: Request) -> dict[str, str]:
    return dict(request.query_params)


async def _form(request: Request) -> dict[str, str]:
    """Read a form, within a limit."""
    data = await read_body(request, BODY_MAX)
    try:
        return dict(parse_qsl(data.decode("utf-8"), keep_blank_values=True, max_num_fields=64))
    except ValueError:
        raise Refusal("CONSOLE-NOT-FROM-THIS-PAGE", "this is not a form of the console") from None


# How does a console run, and how is it asked for a link?


_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ConsoleListening:
    """Where a console answers, and how many can sign in."""

    address: str
    principal: str
    status: str | None = None


async def serve(
    config: ConsoleConfig, telemetry: Telemetry, ready: Callable[[ConsoleListening], None]
) -> None:
    """Run a console until SIGTERM or Ctrl-C."""
    console = Console(config, telemetry)
    context = None
    if config.tls is not None:
        certificate, key = config.tls
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(certificate, key)
    async with (
        listening(console.application(), context, config.listen) as address,
        console.answering_at(address) as url,
    ):
        names = ", ".join(sorted(one.profile.name for one in config.held.values()))
        await until_told_to_stop(ready=lambda: ready(ConsoleListening(url, names)))


def link_for(held: HeldProfile) -> str:
    """Ask the console that holds this profile for a link; the call is signed by the profile's key.

    The console is the one that has written its present run into the folder of the profile, which only the
    profile's owner can write to: a call is worth nothing to another server, nor after the console has ended.
    """
    try:
        door = json.loads(held.door.read_text(encoding="ascii")[:4096])
        address, instance = str(door["address"]), bytes.fromhex(door["instance"])
        trusted = door["tls_certificate"]
        context = ssl.create_default_context(cafile=trusted) if trusted else False
    except (OSError, ValueError, KeyError, TypeError):
        raise Unavailable(
            "UNAVAILABLE-CONSOLE",
            f"no console runs for `{held.profile.name}`; `maia console serve` starts one",
        ) from None
    if len(instance) != INSTANCE_BYTES:
        raise Unavailable("UNAVAILABLE-CONSOLE", f"`{held.door}` was not written by a console")
    call = ApiCall.of("POST", OPEN_PATH, body=b"", credentials=b"", once="")
    request = ApiRequest(held.key.principal, instance, call, system_now(), os.urandom(NONCE_BYTES))
    signed = api_request_to_bytes(sign_api_request(request, held.key))
    try:
        response = httpx.post(
            address + OPEN_PATH,
            headers={"Authorization": f"Maia {base64.b64encode(signed).decode()}"},
            timeout=_TIMEOUT_S,
            trust_env=False,
            verify=context,  # on loopback there is no TLS to verify
        )
        answer = response.json()
    except (httpx.HTTPError, ValueError) as problem:
        raise Unavailable(
            "UNAVAILABLE-CONSOLE", f"no console answers at `{address}`: {type(problem).__name__}"
        ) from problem
    if "path" not in answer:
        raise Unavailable(
            "UNAVAILABLE-CONSOLE", f"the console at `{address}` refuses: {str(answer.get('message'))[:300]}"
        )
    return f"{address}{answer['path']}"
