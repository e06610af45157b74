"""A stream source without any policy: rows of Arrow over a plain socket, for #21.

It batches, plans and hands rows to Spark with the code of the source it is
compared with. There is no broker, no TLS, no certificate and no filter
before Spark's own; whoever connects gets everything.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from live_network import ATTRIBUTES
from maia.spark.source.inbox import HeldFrame, Inbox
from maia.spark.source.options import JobOptions
from maia.spark.source.right_desk import Right
from maia.spark.source.stream import MaiaStreamReader
from maia.views import ARROW_TYPES, spark_type

SCHEMA = pa.schema([pa.field(one.name, ARROW_TYPES[one.kind]) for one in ATTRIBUTES])


class OpenInbox(Inbox):
    """An inbox that a plain socket fills."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._changed = threading.Condition()
        super().__init__(_never, [], None, rows_max=1 << 20, wait_s=30.0)  # type: ignore[arg-type]
        self.log = "open"

    def open(self) -> None:
        """Connect; nothing is asked and nothing is answered."""
        self._plain = socket.create_connection(("127.0.0.1", self._port))
        self._thread.start()

    def close(self) -> None:
        """Hang up."""
        self._plain.close()

    def _run(self) -> None:
        position = 0
        with self._plain.makefile("rb") as file, pa.ipc.open_stream(file) as reader:
            for batch in reader:
                position += 1
                with self._changed:
                    self._held.append(HeldFrame(f"{position:016x}", 0, batch.num_rows, batch))
                    self._changed.notify_all()


def _never() -> None:
    raise AssertionError("an open source has no client")


class OpenReader(MaiaStreamReader):
    """The stream reader of the format `maia`, with another inbox."""

    def __init__(self, options: JobOptions, port: int) -> None:
        super().__init__(Right(options))
        self._port = port

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_port": self._port}

    def _opened(self, start: dict[str, Any]) -> Inbox:
        del start
        if self._inbox is None:
            self._inbox = OpenInbox(self._port)
            self._inbox.open()
        return self._inbox


class OpenSource(DataSource):
    """The format `open`; its one option is a port."""

    @classmethod
    def name(cls) -> str:
        return "open"

    def schema(self) -> StructType:
        fields = StructType()
        for one in ATTRIBUTES:
            fields = fields.add(one.name, spark_type(one.kind))
        return fields

    def streamReader(self, schema: StructType) -> OpenReader:  # noqa: N802 - Spark's name
        port: Mapping[str, str] = self.options
        return OpenReader(_options(), int(port["port"]))


def _options() -> JobOptions:
    from pathlib import Path

    return JobOptions((), Path(), (), "", "", (), "", None, 1, 10_000, None, None, 30.0, None)
