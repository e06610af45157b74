"""The story's broker as a program: `python -m support.broker_process FOLDER ADDRESS`, run in `tests`.

It prints where it listens, and the number of its process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from maia.net.process import until_told_to_stop
from maia.net.stores import FolderStore
from support.live import broker


async def main(folder: Path, address: str) -> None:
    async with broker(listen=address, store=FolderStore(folder)) as running:
        sys.stdout.write(json.dumps({"address": running.address, "pid": os.getpid()}) + "\n")
        sys.stdout.flush()
        await until_told_to_stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
