"""What is kept of the frames that passed, and how is any of it found again, whole or not at all?

Everything here is about bytes that are handed in. The files themselves are in
`maia.log.disk.event_log`.
"""

from __future__ import annotations

from maia.log.format.errors import LogBroken, LogDamaged, LogDiskFull
from maia.log.format.manifest import Manifest, Segment, read_manifest
from maia.log.format.names import SegmentName, manifest_name, manifest_number, segment_name
from maia.log.format.records import LogRecord, type_id_of
from maia.log.format.retention import Keep, Retention
from maia.log.format.segments import (
    HEADER_COLUMNS,
    SEALED_COLUMN,
    SegmentRow,
    column_name,
    message_of,
    row_of,
)

__all__ = [
    "HEADER_COLUMNS",
    "SEALED_COLUMN",
    "Keep",
    "LogBroken",
    "LogDamaged",
    "LogDiskFull",
    "LogRecord",
    "Manifest",
    "Retention",
    "SegmentRow",
    "Segment",
    "SegmentName",
    "column_name",
    "manifest_name",
    "manifest_number",
    "message_of",
    "read_manifest",
    "row_of",
    "segment_name",
    "type_id_of",
]
