"""A broker that writes down every byte it hears: `python -m support.recording_broker HOME`, run in `tests`.

It runs exactly what `maia broker --config HOME/broker.toml` runs. Each message
that its links bring it, opened by TLS, is appended to HOME/heard.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from maia.broker.server.config import prepare, read_config
from maia.broker.server.process import Listening, serve
from maia.broker.server.server import TapFile
from maia.clock import system_now
from maia.keystore.key_files import load_signing_key
from maia.net.telemetry import Telemetry


def main(home: Path) -> None:
    config = read_config(home / "broker.toml", flags={}, environment={})
    prepared = prepare(config, now=system_now(), open_key=load_signing_key)

    def say(listening: Listening) -> None:
        sys.stdout.write(json.dumps({"address": listening.address}) + "\n")
        sys.stdout.flush()

    with TapFile(home / "heard") as heard, (home / "broker.log").open("w", encoding="utf-8") as log:
        telemetry = Telemetry(log, log_format="json", level=config.log_level)
        asyncio.run(serve(prepared, telemetry, say, overhear=heard.write))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
