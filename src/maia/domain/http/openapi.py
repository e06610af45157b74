"""What can be asked of a domain, for programs? An OpenAPI document made from the table of calls."""

from __future__ import annotations

import re
from typing import Any

from maia.api.endpoints import ENDPOINTS, Endpoint
from maia.api.openapi import Json, Schemas, content, document, header_parameter, query_parameters
from maia.api.problems import CREDENTIALS_HEADER, ONCE_HEADER, SCHEME
from maia.api.requests import Nothing


def openapi_document() -> Json:
    named = [kind for page in ENDPOINTS for kind in (page.answer, page.takes) if kind is not Nothing]
    about = "a canonical s-expression, signed by the caller's key, in base64"
    security = {"signed": {"type": "http", "scheme": SCHEME.lower(), "description": about}}
    description = "Who gets which right, and when it ends."
    return document("Maia domain", description, ENDPOINTS, named, _operation, security)


# Any: each call has structs of its own.
def _operation(page: Endpoint[Any, Any], schemas: Schemas) -> Json:
    answer = content("application/json", schemas[page.answer])
    unpublished = {"202": {"description": "done, and no broker has the statement yet", **answer}}
    operation: Json = {
        "operationId": re.sub(r"[^a-z0-9]+", "_", f"{page.method} {page.path}".lower()).strip("_"),
        "tags": [page.tag],
        "parameters": _parameters(page),
        "responses": {
            str(page.status): {"description": "the answer", **answer},
            **(unpublished if page.revokes else {}),
        },
    }
    if page.has_body:
        operation["requestBody"] = {"required": True, **content("application/json", schemas[page.takes])}
    if page.right:
        action, topic = page.right.split()
        operation["x-maia-right"] = {"topic": topic, "action": action}
    return operation


def _parameters(page: Endpoint[Any, Any]) -> list[Json]:
    text = {"type": "string"}
    found = [{"name": one, "in": "path", "required": True, "schema": text} for one in page.parameters]
    found += query_parameters(page.takes) if page.has_query else []
    if not page.is_public:
        found.append(header_parameter(CREDENTIALS_HEADER, "certificates in base64, with commas between them"))
    if page.is_once:
        found.append(
            header_parameter(ONCE_HEADER, "a call with the same key is done once, and answered again")
        )
    return found
