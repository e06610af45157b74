"""Recording brokers that begin within milliseconds, to be killed; run as a program.

It is told the folder of a broker on standard input, makes a child for each
line that runs exactly what `maia broker --config FOLDER/broker.toml` runs,
and says on standard output which process that is and when it has ended.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# Imported before the first child, so that no child has to.
import maia.log.disk.event_log
import maia.spark.governed.opener  # noqa: F401 - see above
from maia.broker.server.config import prepare, read_config
from maia.broker.server.process import Listening, serve
from maia.clock import system_now
from maia.keystore.key_files import load_signing_key
from maia.net.telemetry import Telemetry


def run(home: Path) -> None:
    """Be a broker until killed."""
    os.chdir(home)
    config = read_config(home / "broker.toml", flags={}, environment={})
    prepared = prepare(config, now=system_now(), open_key=load_signing_key)

    def ready(listening: Listening) -> None:
        say(f"listening {listening.address}")

    with (home / "broker.log").open("a", encoding="utf-8") as log:
        asyncio.run(serve(prepared, Telemetry(log, log_format="json", level=config.log_level), ready))


def say(line: str) -> None:
    """Write one line, whole."""
    os.write(1, f"{line}\n".encode())


def main() -> None:
    """Make a child for each line of input, and say when it has ended."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                run(Path(line.strip()))
            finally:
                os._exit(1)
        say(f"child {child}")
        os.waitpid(child, 0)
        say("ended")


if __name__ == "__main__":
    main()
