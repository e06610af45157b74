"""What can recipients ask of a sharing server, and how does a call become an answer?

    GET  /delta-sharing/shares                                             what there is, by pages
    GET  /delta-sharing/shares/S/schemas/types/tables/LabResult/metadata   columns and version
    POST /delta-sharing/shares/S/schemas/types/tables/LabResult/query      addresses of files, for minutes
    GET  /delta-sharing/files/5e0c…9a?address=…                            a file, or a range of it

Every call asks whether its recipient is still one, and whether the right still holds. Nothing that is
asked for becomes a path: names are looked up, and files are called by digests. Nothing that is sent is
decompressed.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, BinaryIO, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from maia.api.http_calls import incident_of, query_of, read_body, single_headers
from maia.clock import system_now
from maia.error_codes import tables
from maia.errors import BadInput, MaiaError, Refusal, Unavailable
from maia.events import SECOND, Instant
from maia.net.http_listener import let_in
from maia.net.observer import Records
from maia.share.addresses import FILE_ID, AddressBook, FileAddress
from maia.share.config import PREFIX, ShareConfig
from maia.share.files import PARQUET
from maia.share.protocol import (
    CAPABILITIES,
    NDJSON,
    VERSION_HEADER,
    MetadataQuery,
    PageQuery,
    TableQuery,
    VersionQuery,
    file_line,
    metadata_line,
    moment_of,
    page_of,
    protocol_line,
)
from maia.share.recipients import Recipient, RecipientFolder
from maia.share.rights import NotShared, SharedName, no_such_table
from maia.share.tables import SharedTables, Shown, right_has_ended
from maia.share.versions import SharedFile

_Result = TypeVar("_Result")
_Handler = Callable[[Request], Awaitable[Response]]

BODY_MAX: Final = 256 << 10
WORKERS: Final = 64
"""Calls that are worked on at one time."""
_CHUNK: Final = 1 << 20
_LOOK_S: Final = 0.5
"""How often a download asks whether its right holds."""
_RETRY_AFTER_S: Final = 5
_OURS: Final = frozenset({"authorization", "content-encoding", "range"})
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII)
_SAFE: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}
_BY_CODE: Final = {
    "REFUSED-SHARE-BEARER": 401,
    "REFUSED-SHARE-EXPIRED": 401,
    "REFUSED-SHARE-CALLS": 429,
    "NOT-SHARED": 404,
    "UNAVAILABLE-SHARE-GONE": 404,
    "INPUT-API-METHOD": 405,
    "INPUT-API-TOO-LARGE": 413,
}
_SAID: Final = frozenset(tables()["share"]["BadInput"]) | {
    *tables()["share"]["Refusal"], *tables()["share"]["Unavailable"], "NOT-SHARED",
    "INPUT-API-CALL", "INPUT-API-TOO-LARGE", "UNAVAILABLE-LOG-INCOMPLETE", "PIPELINE-GRANT-ENDED",
}  # fmt: skip
"""Codes whose sentences are for recipients."""
_BY_FAMILY: Final = ((Refusal, 403), (Unavailable, 503), (BadInput, 400))


class ShareDoor:
    """The pages of one sharing server."""

    def __init__(
        self, config: ShareConfig, tables: SharedTables, addresses: AddressBook, records: Records
    ) -> None:
        """Serve the recipients of a data folder; nothing listens yet."""
        self.recipients = RecipientFolder(config.data)
        self.tables = tables
        self.endpoint = ""
        self.counts: Counter[str] = Counter()
        self._config, self._addresses, self._records = config, addresses, records
        self._calls: Counter[str] = Counter()
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="shares")

    def close(self) -> None:
        """End what is worked on."""
        self._workers.shutdown(wait=True, cancel_futures=True)

    def application(self) -> Starlette:
        """Return the pages as an ASGI application."""
        share = f"{PREFIX}/shares/{{share}}"
        schema, table = f"{share}/schemas/{{schema}}", f"{share}/schemas/{{schema}}/tables/{{table}}"
        pages: dict[str, tuple[str, _Handler]] = {
            f"{PREFIX}/shares": ("GET", self._shares),
            share: ("GET", self._share),
            f"{share}/schemas": ("GET", self._schemas),
            f"{share}/all-tables": ("GET", self._tables),
            f"{schema}/tables": ("GET", self._tables),
            f"{table}/version": ("GET", self._version),
            f"{table}/metadata": ("GET", self._metadata),
            f"{table}/query": ("POST", self._query),
            f"{table}/changes": ("GET", self._changes),
            f"{PREFIX}/files/{{file}}": ("GET", self._file),
        }
        routes = [
            Route(path, self._answered(handler), methods=[method])
            for path, (method, handler) in pages.items()
        ]

        async def missing(request: Request) -> Response:
            self._recipient(request)
            raise no_such_table()

        async def not_found(request: Request, _problem: Exception) -> Response:
            return await self._answered(missing)(request)

        app = Starlette(routes=routes, exception_handlers={404: not_found, 405: not_found})
        app.router.redirect_slashes = False
        return app

    # ------------------------------------------------------------ around every answer

    def _answered(self, handler: _Handler) -> _Handler:
        async def answer(request: Request) -> Response:
            try:
                response = await handler(request)
            except MaiaError as problem:
                response = self._refused(problem)
            except Exception as problem:  # noqa: BLE001 - the outermost loop of the server
                incident = incident_of(problem, self._records)
                response = _error(500, "INTERNAL", f"something went wrong here (incident {incident})")
            response.headers.update(_SAFE)
            return response

        return answer

    def _refused(self, problem: MaiaError) -> Response:
        """Answer with a problem: what is not about the call itself, such as a file, only the log says."""
        self._records.count("maia_share_refused_total", 1, {"code": problem.code})
        text = problem.message
        if problem.code not in _SAID:
            text = "this cannot be answered now; the operator of the server finds the reason in its log"
        self._records.note("refused", {"code": problem.code, "message": problem.message})
        status = _BY_CODE.get(problem.code) or next(
            (number for kind, number in _BY_FAMILY if isinstance(problem, kind)), 400
        )
        response = _error(status, problem.code, text)
        if status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        if status in (429, 503):
            response.headers["Retry-After"] = str(_RETRY_AFTER_S)
        return response

    def _recipient(self, request: Request) -> Recipient:
        """Return whose call this is: every failure of a token looks the same."""
        headers = single_headers(request, _OURS)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        found = self.recipients.by_token(token.strip() if scheme.lower() == "bearer" else "", system_now())
        let_in(request.scope)
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise BadInput("INPUT-SHARE-CALL", "bodies are read as they are: nothing is decompressed")
        return found

    @contextmanager
    def _calling(self, recipient: Recipient) -> Iterator[None]:
        """Count a call of a recipient for as long as it lasts."""
        if self._calls[recipient.id] >= self._config.calls_per_recipient:
            raise Refusal(
                "REFUSED-SHARE-CALLS", "you have as many calls under way as you may have: wait for one"
            )
        self._calls[recipient.id] += 1
        try:
            yield
        finally:
            self._calls[recipient.id] -= 1
            self._calls += Counter()  # without those that have none

    async def _worked(self, work: Callable[[], _Result]) -> _Result:
        """Do work that takes files, keys and testers, beside everything else."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, work)

    # ------------------------------------------------------------ what there is

    async def _shares(self, request: Request) -> Response:
        self._recipient(request)
        return _json(page_of([self._own()], query_of(request, PageQuery)))

    async def _share(self, request: Request) -> Response:
        self._recipient(request)
        self._check_share(request)
        return _json({"share": self._own()})

    async def _schemas(self, request: Request) -> Response:
        query, tables = query_of(request, PageQuery), await self._listed(request)
        found = dict.fromkeys(one.schema for one in tables)
        return _json(page_of([{"name": one, "share": self._config.share} for one in found], query))

    async def _tables(self, request: Request) -> Response:
        query, tables = query_of(request, PageQuery), await self._listed(request)
        schema = request.path_params.get("schema")
        if schema is not None:
            tables = [one for one in tables if one.schema.lower() == schema.lower()]
            if not tables:
                raise no_such_table()
        share = self._config.share
        found = [{"name": one.table, "schema": one.schema, "share": share} for one in tables]
        return _json(page_of(found, query))

    async def _listed(self, request: Request) -> list[SharedName]:
        recipient = self._recipient(request)
        self._check_share(request)
        with self._calling(recipient):
            return await self._worked(partial(self.tables.rights.listed, recipient))

    def _own(self) -> dict[str, str]:
        return {"name": self._config.share}

    def _check_share(self, request: Request) -> None:
        if str(request.path_params["share"]).lower() != self._config.share.lower():
            raise no_such_table()

    # ------------------------------------------------------------ a table

    async def _table(self, request: Request) -> tuple[Recipient, SharedName]:
        recipient = self._recipient(request)
        self._check_share(request)
        schema, table = (str(request.path_params[one]) for one in ("schema", "table"))
        return recipient, await self._worked(partial(self.tables.rights.named, recipient, schema, table))

    async def _version(self, request: Request) -> Response:
        recipient, table = await self._table(request)
        since = query_of(request, VersionQuery).starting_timestamp

        def work() -> int:
            with self.tables.newest(recipient, table) as shown:
                if since is None:
                    return shown.version.version
                return self.tables.first_since(shown, moment_of(since))

        with self._calling(recipient):
            version = await self._worked(work)
        return Response(b"", 200, {VERSION_HEADER: str(version)})

    async def _metadata(self, request: Request) -> Response:
        recipient, table = await self._table(request)
        query = query_of(request, MetadataQuery)

        def work() -> tuple[int, list[bytes]]:
            with self._shown(recipient, table, query.version, query.timestamp) as shown:
                return shown.version.version, [protocol_line(), _metadata_of(shown, table)]

        with self._calling(recipient):
            return _lines(*await self._worked(work))

    async def _query(self, request: Request) -> Response:
        recipient, table = await self._table(request)
        with self._calling(recipient):
            body = await read_body(request, BODY_MAX)
            try:
                query = msgspec.json.decode(body or b"{}", type=TableQuery)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                raise BadInput("INPUT-SHARE-CALL", "the body is no query of a table in JSON") from None
            if query.starting_version is not None or query.ending_version is not None:
                raise changes_are_not_served()
            return _lines(*await self._worked(partial(self._handed_out, recipient, table, query)))

    def _handed_out(
        self, recipient: Recipient, table: SharedName, query: TableQuery
    ) -> tuple[int, list[bytes]]:
        """Return the addresses of a table's files, each on record before."""
        with self._shown(recipient, table, query.version, query.timestamp) as shown:
            chosen = _enough(shown.version.files, query.limit_hint)
            about = _metadata_of(shown, table)
            read = self.tables.hand_out(recipient, shown, chosen)
            until = Instant(system_now() + self._config.address_s * SECOND)
            address = FileAddress(recipient.id, table.word, shown.right.shown_class, int(until))
            version = shown.version.version
            files = [
                file_line(
                    id=one.reads,
                    url=self._url(one.file, address),
                    size=one.size,
                    rows=one.rows,
                    version=version,
                    until=until,
                )
                for one in chosen
            ]
        told = {"recipient": recipient.name, "type": table.word, "version": version, "files": len(chosen)}
        self._records.note("handed-out", {**told, "read": read})
        self.counts["queries"] += 1
        self.counts["rows"] += sum(one.rows for one in chosen)
        return version, [protocol_line(), about, *files]

    def _url(self, file: str, address: FileAddress) -> str:
        return f"{self.endpoint}/files/{file}?address={self._addresses.write(file, address)}"

    async def _changes(self, request: Request) -> Response:
        await self._table(request)
        raise changes_are_not_served()

    @contextmanager
    def _shown(
        self, recipient: Recipient, table: SharedName, version: int | None, timestamp: str | None
    ) -> Iterator[Shown]:
        """Lend the version that is asked for; raise where it cannot be a table of files."""
        if version is not None and timestamp is not None:
            raise BadInput("INPUT-SHARE-CALL", "ask for a version or for a timestamp, not for both")
        with ExitStack() as stack:
            if version is not None:
                lent = self.tables.at(recipient, table, version)
            elif timestamp is not None:
                lent = self.tables.as_of(recipient, table, moment_of(timestamp))
            else:
                lent = self.tables.newest(recipient, table)
            yield stack.enter_context(lent)

    # ------------------------------------------------------------ files

    async def _file(self, request: Request) -> Response:
        """Send a file, or a range of it, for as long as the right holds."""
        file, text = str(request.path_params["file"]), request.query_params.get("address", "")
        if FILE_ID.fullmatch(file) is None:
            raise no_such_table()
        address = self._addresses.read(file, text, system_now())
        let_in(request.scope)
        recipient = self.recipients.by_id(address.recipient, system_now())
        headers = single_headers(request, _OURS)
        with ExitStack() as stack:
            stack.enter_context(self._calling(recipient))
            await self._worked(partial(self._check, recipient, address))
            opened: BinaryIO = await self._worked(partial(self.tables.files.open, file + PARQUET))
            stack.callback(opened.close)
            size = opened.seek(0, 2)
            first, last, status = _range_of(headers.get("range"), size)
            said = {"Accept-Ranges": "bytes", "Content-Length": str(last - first + 1), "ETag": f'"{file}"'}
            if status == 206:
                said["Content-Range"] = f"bytes {first}-{last}/{size}"
            if request.method == "HEAD":
                return Response(None, status, said, media_type="application/octet-stream")
            opened.seek(first)
            self.counts["files"] += 1
            check = partial(self._check, recipient, address)
            body = self._sent(opened, last - first + 1, check)
            return _Sending(body, stack.pop_all(), status, said)
        raise AssertionError  # the stack lets no exception go

    def _check(self, recipient: Recipient, address: FileAddress) -> None:
        """Raise unless a recipient is still one, and its right shows what the address was made for."""
        self.recipients.by_id(recipient.id, system_now())
        with self.tables.rights.lent(recipient, address.table) as right:
            if right.shown_class != address.shown_class:
                raise right_has_ended()

    async def _sent(self, opened: BinaryIO, size: int, check: Callable[[], None]) -> AsyncIterator[bytes]:
        looked_at = asyncio.get_running_loop().time()
        while size > 0:
            part = await self._worked(partial(opened.read, min(_CHUNK, size)))
            if not part:
                return
            if asyncio.get_running_loop().time() > looked_at + _LOOK_S:
                await self._worked(check)  # what is raised ends the connection, in the middle of the file
                looked_at = asyncio.get_running_loop().time()
            size -= len(part)
            self.counts["bytes"] += len(part)
            yield part

    def status(self) -> dict[str, int]:
        """Return how much there is, without names."""
        return {
            "rights": self.tables.rights.count,
            "cache_bytes": self.tables.files.size,
            "calls": sum(self._calls.values()),
            **{name: self.counts[name] for name in ("queries", "rows", "files", "bytes")},
        }


class _Sending(StreamingResponse):
    """A file that lets everything go also if its first byte was never asked for."""

    def __init__(
        self, content: AsyncIterator[bytes], opened: ExitStack, status: int, headers: dict[str, str]
    ) -> None:
        super().__init__(content, status, headers, media_type="application/octet-stream")
        self._opened = opened

    # Any: the types of ASGI are Starlette's.
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        except MaiaError:
            return  # the right ended in the middle: fewer bytes than were announced, and a closed connection
        finally:
            self._opened.close()


def changes_are_not_served() -> BadInput:
    """Return the refusal of a stream of changes."""
    return BadInput(
        "INPUT-SHARE-CHANGES",
        "changes between versions are not served here: read the whole table of a version",
    )


def _metadata_of(shown: Shown, table: SharedName) -> bytes:
    right, version = shown.right, shown.version
    return metadata_line(
        shown_class=right.shown_class,
        name=table.table,
        shown=right.shown,
        version=version.version,
        size=version.size,
        files=len(version.files),
        missing=right.missing,
    )


def _enough(files: Sequence[SharedFile], limit: int | None) -> list[SharedFile]:
    """Return the first files that hold so many rows."""
    chosen: list[SharedFile] = []
    rows = 0
    for one in files:
        if limit is not None and rows >= limit:
            break
        chosen.append(one)
        rows += one.rows
    return chosen


def _range_of(header: str | None, size: int) -> tuple[int, int, int]:
    """Return the first and last byte that are asked for, and the status: one range, or the whole file."""
    found = None if header is None else _RANGE.fullmatch(header.strip())
    if found is None or not size:
        return 0, size - 1, 200
    first, last = found.groups()
    if not first and not last:
        return 0, size - 1, 200
    begin = int(first) if first else max(0, size - int(last))
    end = min(size - 1, int(last)) if first and last else size - 1
    if begin > end:
        raise BadInput("INPUT-SHARE-CALL", "the file ends before the range that was asked for")
    return begin, end, 206


def _lines(version: int, lines: Sequence[bytes]) -> Response:
    return Response(b"".join(lines), 200, {VERSION_HEADER: str(version), **CAPABILITIES}, media_type=NDJSON)


def _json(content: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json; charset=utf-8")


def _error(status: int, code: str, message: str) -> Response:
    content = msgspec.json.encode({"errorCode": code, "message": message[:2000]})
    return Response(content, status, media_type="application/json; charset=utf-8")


__all__ = ["NotShared", "ShareDoor"]
