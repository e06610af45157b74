"""How does a shared table look in the words of Delta Sharing?

The protocol is https://github.com/delta-io/delta-sharing/blob/main/PROTOCOL.md: JSON for what there is,
a line of JSON each for protocol, metadata and files. Files are answered in the format `parquet`, which
every client reads.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from maia.errors import BadInput
from maia.events import Attribute, Instant, Kind

PAGE_MAX: Final = 500
"""Items of one page."""
HINTS_MAX: Final = 64
VERSION_HEADER: Final = "delta-table-version"
CAPABILITIES: Final = {"delta-sharing-capabilities": "responseformat=parquet"}
NDJSON: Final = "application/x-ndjson; charset=utf-8"
_KINDS: Final[Mapping[Kind, str]] = {
    Kind.STRING: "string",
    Kind.INT: "long",
    Kind.FLOAT: "double",
    Kind.BOOL: "boolean",
    Kind.TIMESTAMP: "timestamp",
    Kind.BYTES: "binary",
}
_Long = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Text = Annotated[str, Meta(max_length=1 << 16)]
_Moment = Annotated[str, Meta(max_length=64)]


class PageQuery(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Which page of a list is asked for."""

    max_results: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    page_token: Annotated[str, Meta(max_length=64)] = ""


class VersionQuery(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Which version is asked for."""

    starting_timestamp: _Moment | None = None


class MetadataQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of which version the metadata is asked for."""

    version: _Long | None = None
    timestamp: _Moment | None = None


class TableQuery(msgspec.Struct, frozen=True, rename="camel"):
    """What of a table is asked for. Clients of other versions say more, which changes nothing here."""

    predicate_hints: Annotated[list[_Text], Meta(max_length=HINTS_MAX)] | None = None
    json_predicate_hints: _Text | None = None
    limit_hint: _Long | None = None
    version: _Long | None = None
    timestamp: _Moment | None = None
    starting_version: _Long | None = None
    ending_version: _Long | None = None


def moment_of(text: str) -> Instant:
    """Read a moment as ISO 8601 writes it, or with a blank; without an offset it is in UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadInput("INPUT-SHARE-CALL", "a timestamp is written such as `2026-11-15T08:30:00Z`") from None
    return Instant.from_datetime(found if found.tzinfo is not None else found.replace(tzinfo=UTC))


# ------------------------------------------------------------ lists


def page_of(items: Sequence[Mapping[str, str]], query: PageQuery) -> dict[str, Any]:
    """Return a page of a list, and the token of the next one."""
    begin = _begin(query.page_token)
    end = begin + min(PAGE_MAX, PAGE_MAX if query.max_results is None else query.max_results)
    page: dict[str, Any] = {"items": list(items[begin:end])}
    if end < len(items):
        page["nextPageToken"] = urlsafe_b64encode(str(end).encode()).decode().rstrip("=")
    return page


def _begin(token: str) -> int:
    if not token:
        return 0
    try:
        text = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii")
        if text.isdecimal() and len(text) < 10:
            return int(text)
    except ValueError:
        pass
    raise BadInput("INPUT-SHARE-CALL", "the page token was not made by this server")


# ------------------------------------------------------------ tables


def protocol_line() -> bytes:
    """Return what a client has to know of the protocol."""
    return _line({"protocol": {"minReaderVersion": 1}})


def metadata_line(
    *,
    shown_class: bytes,
    name: str,
    shown: Iterable[Attribute],
    version: int,
    size: int,
    files: int,
    missing: int,
) -> bytes:
    """Return what a client has to know of a table; a right that shows something else is another table."""
    fields = [{"name": one.name, "type": _KINDS[one.kind], "nullable": True, "metadata": {}} for one in shown]
    about: dict[str, Any] = {
        "id": str(UUID(bytes=shown_class[:16])),
        "name": name,
        "format": {"provider": "parquet"},
        "schemaString": json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False),
        "partitionColumns": [],
        "configuration": {"maia.missing": str(missing)} if missing else {},
        "version": version,
        "size": size,
        "numFiles": files,
    }
    return _line({"metaData": about})


def file_line(*, id: str, url: str, size: int, rows: int, version: int, until: Instant) -> bytes:  # noqa: A002 - the protocol's name
    """Return where a client finds a file, and until when."""
    stats = json.dumps({"numRecords": rows})
    about = {"url": url, "id": id, "partitionValues": {}, "size": size, "stats": stats}
    times = {"version": version, "timestamp": version, "expirationTimestamp": int(until) // 1000}
    return _line({"file": {**about, **times}})


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
