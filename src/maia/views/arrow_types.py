"""Which Arrow type holds which kind of value? Apart from `schema.py`, because Arrow takes long to load."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from maia.events import Kind, Kinds

__all__ = ["ARROW_TYPES", "arrow_schema"]

ARROW_TYPES: Final[dict[Kind, pa.DataType]] = {
    Kind.STRING: pa.string(),
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.BYTES: pa.binary(),
}


def arrow_schema(stored: Kinds) -> pa.Schema:
    """Return the schema of a batch whose columns are called by uid."""
    return pa.schema([pa.field(uid, ARROW_TYPES[kind]) for uid, kind in stored.items()])
