"""What can be asked of a domain, for programs? An OpenAPI 3.1 document made from the table of pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from maia.api.problems import CREDENTIALS_HEADER, ONCE_HEADER, PROBLEM_JSON, SCHEME, ApiProblem
from maia.domain.http.pages import Endpoint

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
