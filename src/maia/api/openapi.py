"""How is an HTTP interface of ours described for programs? By an OpenAPI 3.1 document.

A domain's server and a gateway make theirs here, each from its own table of pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from maia.api.problems import PROBLEM_JSON, ApiProblem

# Any in this file: JSON, as it will be written.
Json = dict[str, Any]
Schemas = Mapping[type, Json]


class _DescribedPage(Protocol):
    """A page of an interface."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def is_public(self) -> bool: ...


_Page = TypeVar("_Page", bound=_DescribedPage)


def document(
    title: str,
    description: str,
    pages: Iterable[_Page],
    kinds: Iterable[type],
    operation: Callable[[_Page, Schemas], Json],
    security: Json,
) -> Json:
    """Describe pages, whose bodies and answers are of these kinds; `operation` says what only it knows."""
    known = list(dict.fromkeys((ApiProblem, *kinds)))
    schemas, components = msgspec.json.schema_components(known, ref_template="#/components/schemas/{name}")
    by_kind = dict(zip(known, schemas, strict=True))
    problem = {"content": {PROBLEM_JSON: {"schema": by_kind[ApiProblem]}}}
    paths: dict[str, Json] = {}
    for page in pages:
        found = {"summary": page.summary, **operation(page, by_kind)}
        found["responses"] |= {
            "4XX": {"description": "the caller can mend it, or is refused", **problem},
            "5XX": {"description": "not available now", **problem},
        }
        paths.setdefault(page.path, {})[page.method.lower()] = found | (
            {"security": []} if page.is_public else {}
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": "1",
            "description": f"{description} Errors are problem details (RFC 9457).",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": security},
        "security": [{name: []} for name in security],
    }


def content(kind: str, schema: Json) -> Json:
    """Describe a body of one media type."""
    return {"content": {kind: {"schema": schema}}}


def query_parameters(kind: type) -> list[Json]:
    """Describe the words that a query takes."""
    schema = msgspec.json.schema(kind)["$defs"][kind.__name__]
    wanted = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in wanted, "schema": one}
        for name, one in schema["properties"].items()
    ]


def header_parameter(name: str, why: str) -> Json:
    """Describe a header that a call may have."""
    return {"name": name, "in": "header", "required": False, "description": why, "schema": {"type": "string"}}
