"""How does Spark calculate pseudonyms and noise without the secret in its plan?

A function over Arrow batches is pickled into the plan together with a
`KeySource`: a description of where a worker finds the secret, such as the path of a
file, and never the secret itself. The worker asks it once per process.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf

from maia.events import Instant, Kind
from maia.expressions.meaning import TransformationKeys, keyed_result
from maia.expressions.syntax import Call
from maia.views.arrow_types import ARROW_TYPES
from maia.views.schema import spark_type

if TYPE_CHECKING:
    from maia.views.plan import KeyName

__all__ = ["KeySource", "keyed_column"]


class KeySource(Protocol):
    """Where a worker finds the secrets of transformations. It is hashable, and pickled without a secret."""

    def transformation_keys(self) -> TransformationKeys:
        """Return the secrets; asked in the worker."""

    def __hash__(self) -> int:
        """Return the same for sources of the same secrets: a worker asks each of them once."""


def keyed_column(call: Call, inner: Column, name: KeyName, keys: KeySource) -> Column:
    """Return a pseudonym or a perturbed value as a column."""
    issuer, recipient = name.issuer, name.recipient

    def of_batch(values: pa.Array) -> pa.Array:
        step_keys = _secrets(keys).of(issuer, recipient)
        kind = call.inner.kind
        found = values.cast(pa.int64()).to_pylist() if kind is Kind.TIMESTAMP else values.to_pylist()
        given = (Instant(one) if kind is Kind.TIMESTAMP and one is not None else one for one in found)
        results = [None if one is None else keyed_result(call, one, step_keys) for one in given]
        return pa.array(results, ARROW_TYPES[call.kind])

    # The stubs of Spark know functions over iterators of batches only.
    made = arrow_udf(of_batch, returnType=spark_type(call.kind).simpleString())  # type: ignore[call-overload]
    column: Column = made(inner)
    return column


@lru_cache(maxsize=16)
def _secrets(keys: KeySource) -> TransformationKeys:
    return keys.transformation_keys()
