"""What can be asked of a domain, for programs? An OpenAPI 3.1 document made from the table of calls."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from maia.api.endpoints import ENDPOINTS, Endpoint
from maia.api.problems import CREDENTIALS_HEADER, ONCE_HEADER, PROBLEM_JSON, SCHEME, ApiProblem
from maia.api.requests import Nothing

API_VERSION: Final = "1"

# Any in this file: JSON, as it will be written.
_Json = dict[str, Any]


def openapi_document() -> _Json:
    named: list[type] = [kind for page in ENDPOINTS for kind in (page.answer, page.takes)]
    kinds = [one for one in dict.fromkeys((ApiProblem, *named)) if one is not Nothing]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, _Json] = {}
    for page in ENDPOINTS:
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


def _operation(page: Endpoint[Any, Any], schemas: dict[type, _Json]) -> _Json:
    problem = {"content": {PROBLEM_JSON: {"schema": schemas[ApiProblem]}}}
    answer = {"content": {"application/json": {"schema": schemas[page.answer]}}}
    unpublished = {"202": {"description": "done, and no broker has the statement yet", **answer}}
    operation: _Json = {
        "operationId": re.sub(r"[^a-z0-9]+", "_", f"{page.method} {page.path}".lower()).strip("_"),
        "summary": page.summary,
        "tags": [page.tag],
        "parameters": _parameters(page),
        "responses": {
            str(page.status): {"description": "the answer", **answer},
            **(unpublished if page.revokes else {}),
            "4XX": {"description": "the caller can mend it, or is refused", **problem},
            "5XX": {"description": "not available now", **problem},
        },
    }
    if page.has_body:
        content = {"application/json": {"schema": schemas[page.takes]}}
        operation["requestBody"] = {"required": True, "content": content}
    if page.is_public:
        operation["security"] = []
    if page.right:
        action, topic = page.right.split()
        operation["x-maia-right"] = {"topic": topic, "action": action}
    return operation


def _parameters(page: Endpoint[Any, Any]) -> list[_Json]:
    text = {"type": "string"}
    found = [{"name": one, "in": "path", "required": True, "schema": text} for one in page.parameters]
    if page.has_query:
        schema = msgspec.json.schema(page.takes)["$defs"][page.takes.__name__]
        wanted = schema.get("required", [])
        found += [
            {"name": name, "in": "query", "required": name in wanted, "schema": one}
            for name, one in schema["properties"].items()
        ]
    headers = {}
    if not page.is_public:
        headers[CREDENTIALS_HEADER] = "certificates in base64, with commas between them"
    if page.is_once:
        headers[ONCE_HEADER] = "a call with the same key is done once, and answered again"
    return found + [
        {"name": name, "in": "header", "required": False, "description": why, "schema": text}
        for name, why in headers.items()
    ]
