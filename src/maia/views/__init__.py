"""Executors of a View: four fast ways to the answer of `see`.

`to_spark` is left for `maia.views.to_spark` itself, because importing it
loads PySpark, and a command that never starts Spark should not wait for it.
"""

from maia.views.plan import EXPANDED_NODES_MAX, WINDOWS_MAX, ViewTooLarge
from maia.views.schema import (
    ARROW_TYPES,
    POSTGRES_TYPES,
    StoredMismatch,
    arrow_schema,
    spark_schema,
    spark_type,
)
from maia.views.to_arrow import SeeBatch, to_arrow
from maia.views.to_python import See, Shape, Test, to_python, to_python_shape, to_python_test
from maia.views.to_sql import BadIdentifier, Query, TableName, to_sql

__all__ = [
    "ARROW_TYPES",
    "EXPANDED_NODES_MAX",
    "POSTGRES_TYPES",
    "WINDOWS_MAX",
    "BadIdentifier",
    "Query",
    "See",
    "SeeBatch",
    "Shape",
    "StoredMismatch",
    "TableName",
    "Test",
    "ViewTooLarge",
    "arrow_schema",
    "spark_schema",
    "spark_type",
    "to_arrow",
    "to_python",
    "to_python_shape",
    "to_python_test",
    "to_sql",
]
