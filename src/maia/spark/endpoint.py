"""May people whom a job does not trust write SQL to this Spark session?

    maia.spark.check_endpoint(spark, keeps_out=["/var/lib/maia/log"])

A program that serves SQL to others asks before it listens. SQL alone runs shell commands, calls Java,
loads jars and opens any file that the process can read: one setting of Spark ends the first two, and
rights of the operating system the others. So an endpoint runs as an account of its own, without
keys and without the log, and serves tables that a job has written for it (docs/limitations/servers.md).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from maia.errors import Refusal, Unavailable
from maia.places import is_address, place_of
from maia.spark.keys.key_server import desks_open

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RESTRICTED", "check_endpoint"]

RESTRICTED: Final = "spark.sql.restrictedMode.enabled"


def check_endpoint(spark: SparkSession, *, keeps_out: Collection[str | os.PathLike[str]]) -> None:
    """Refuse a session in which SQL of others would reach code, keys, or the places in `keeps_out`.

    `keeps_out` names what the users of the endpoint may not read: folders of logs, and of keys.
    """
    found: list[str] = []
    # A static setting: a session cannot change it, so what is read now holds until the driver ends.
    if spark.conf.get(RESTRICTED, "false") != "true":
        found.append(f"SQL runs commands and calls Java (start Spark with `{RESTRICTED}` true)")
    found += [
        f"SQL opens files in `{place}` (run as an account that cannot read it)"
        for place in map(str, keeps_out)
        if (_can_list(place) if is_address(place) else os.access(place, os.R_OK))
    ]
    if desks_open():
        found.append("keys of a governed table are in this process (write the table, and serve that)")
    if found:
        raise Refusal("PIPELINE-ENDPOINT-OPEN", "this session is no endpoint for others: " + "; ".join(found))


def _can_list(place: str) -> bool:
    try:
        return place_of(place).exists()
    except Unavailable:
        return False
