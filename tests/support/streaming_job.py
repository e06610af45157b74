"""A small streaming job of its own process: `python -m support.streaming_job FOLDER`, run in `tests`.

It follows the log in FOLDER as a governed stream into FOLDER/out, one batch
after the other, and says on standard output when each is done. With
`--to-the-end` it stops when nothing is left.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from maia.pipeline.governed import governed
from maia.runtime.spark_session import spark_session
from support.governed import reader, typed


def main(folder: Path, *, to_the_end: bool) -> None:
    """Run until nothing is left, or until killed."""
    with spark_session("killed", cores=1) as spark:
        stream = governed(
            spark, log=str(folder / "log"), event_type=typed(), reader=reader(), is_stream=True
        ).writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        trigger = {"availableNow": True} if to_the_end else {"processingTime": "0 seconds"}
        query = stream.format("parquet").trigger(**trigger).start(str(folder / "out"))
        os.write(1, b"running\n")
        done = -1
        while query.isActive:
            last = query.lastProgress
            if last is not None and last["batchId"] != done and last["numInputRows"]:
                done = last["batchId"]
                os.write(1, f"batch {done}\n".encode())
            time.sleep(0.02)
        assert query.exception() is None


if __name__ == "__main__":
    main(Path(sys.argv[1]), to_the_end="--to-the-end" in sys.argv)
