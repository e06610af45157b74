"""Executors of a View: four fast ways to the answer of `see`.

`to_spark` is left for `maia.views.to_spark` itself, because importing it
loads PySpark, and a command that never starts Spark should not wait for it.
What needs Arrow is loaded when it is first asked for, because a broker that
never sees a batch would otherwise take twice as long to start.
"""

from typing import TYPE_CHECKING, Final

from maia.views.plan import (
    POSTGRES_TYPES,
    WINDOWS_MAX,
    ViewSummarises,
    ViewTooLarge,
    spark_schema,
    spark_type,
)
from maia.views.to_python import See, Test, to_python, to_python_test
from maia.views.to_sql import Query, TableName, to_sql, to_sql_summary

if TYPE_CHECKING:
    from maia.views.arrow_executor import ARROW_TYPES, arrow_schema, to_arrow

__all__ = [
    "ARROW_TYPES",
    "POSTGRES_TYPES",
    "WINDOWS_MAX",
    "Query",
    "See",
    "TableName",
    "Test",
    "ViewSummarises",
    "ViewTooLarge",
    "arrow_schema",
    "spark_schema",
    "spark_type",
    "to_arrow",
    "to_python",
    "to_python_test",
    "to_sql",
    "to_sql_summary",
]

_WITH_ARROW: Final = {
    "ARROW_TYPES": "maia.views.arrow_executor",
    "arrow_schema": "maia.views.arrow_executor",
    "to_arrow": "maia.views.arrow_executor",
}


def __getattr__(name: str) -> object:
    """Load what needs Arrow when it is first asked for."""
    from importlib import import_module

    if name not in _WITH_ARROW:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_WITH_ARROW[name]), name)
    globals()[name] = found
    return found
