"""What may a participant see of the recorded events of a type, as a table, by its profile alone?

    maia.spark.table(spark, "LabResult", profile="dashboard.maia").where("value > 100").show()

The profile says who reads, with which certificates, from which log. Keys, signers, segments and
the watch over the reader's right are looked after here, for as long as the Spark
session is used; `close` ends them, and with them the tables.
"""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maia.profile import Profile, find_profile
from maia.spark.governed.opened_log import opened_log
from maia.spark.open_log import log_reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_OPEN: weakref.WeakKeyDictionary[SparkSession, ExitStack] = weakref.WeakKeyDictionary()


def table(
    spark: SparkSession,
    name: str,
    *,
    profile: str | Path | Profile,
    filter: str = "true",  # noqa: A002 - it is called so in requests and in the client
    # Any: what `maia.spark.governed.table.governed` takes by name.
    **named: Any,
) -> DataFrame:
    """Return the recorded events of a type as the participant of a profile may see them."""
    who = profile if isinstance(profile, Profile) else find_profile(str(profile))
    reader = log_reader(who, name, who.log())
    stack = _OPEN.get(spark)
    if stack is None:
        stack = _OPEN[spark] = ExitStack()
        # At the end of the program at the latest, before the session's own end.
        weakref.finalize(spark, stack.close)
    return stack.enter_context(opened_log(reader))(spark, filter=filter, **named)


def stream(
    spark: SparkSession,
    name: str,
    *,
    profile: str | Path | Profile,
    filter: str = "true",  # noqa: A002 - it is called so in requests and in the client
    # Any: what `maia.spark.governed.table.governed` takes by name.
    **named: Any,
) -> DataFrame:
    """Return the same table as a stream, which goes on with what the log gets later."""
    return table(spark, name, profile=profile, filter=filter, is_stream=True, **named)


def close(spark: SparkSession) -> None:
    """Destroy the keys behind the tables of a session; its tables can be read no more."""
    stack = _OPEN.pop(spark, None)
    if stack is not None:
        stack.close()
