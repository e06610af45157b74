"""`maia` with little patience and few places, so that a test sees in seconds where both of them end.

    running_maia("broker", …, cwd=folder, module="support.impatient")

`job-desk` runs the desk of a Spark driver, and prints a pass for its workers.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

from maia.broker.settings import BrokerLimits
from maia.cli import main
from maia.domain import DomainLimits
from maia.gateway.server import connections as mqtt
from maia.net import http_listener as http
from maia.net import status_endpoint as status
from maia.net.links import LinkLimits
from maia.spark.keys import key_server as desk

WAIT_S: Final = 2.0
PLACES: Final = 24
STRANGERS_BYTES: Final = 1 << 20


def lessen(kind: type, **values: float) -> None:
    """Have a dataclass of limits begin with others."""
    made = kind.__init__
    names = made.__code__.co_varnames[1 : made.__code__.co_argcount]
    made.__defaults__ = tuple(
        values.get(name, before) for name, before in zip(names, made.__defaults__, strict=True)
    )


def lessen_all() -> None:
    """Wait for two seconds wherever strangers are waited for, and let two dozen of them wait."""
    http.HEAD_S = http.READ_S = http.HANDSHAKE_S = http.CLOSE_S = status.REQUEST_S = WAIT_S
    http._KEEP_ALIVE_S = int(WAIT_S)
    http.STRANGERS_MAX = http.HALF_OPEN_MAX = status.CONNECTIONS_MAX = desk.WORKERS_MAX = PLACES
    http.STRANGERS_BYTES_MAX = STRANGERS_BYTES
    mqtt.CLOSE_S = desk.QUESTION_S = WAIT_S
    lessen(LinkLimits, half_open=PLACES, handshake_s=WAIT_S, close_s=WAIT_S)
    for kind in (BrokerLimits, DomainLimits):
        lessen(kind, links_before_welcome=PLACES, handshake_s=int(WAIT_S))


if __name__ == "__main__":
    lessen_all()
    if sys.argv[1:] == ["job-desk"]:
        with desk.job_desk() as opened:
            shown = opened.open(None, frozenset({None}))
            words = f"listening on {shown.host}:{shown.port}", shown.grant.hex(), shown.token.hex()
            sys.stdout.write(" ".join(words) + "\n")
            sys.stdout.flush()
            threading.Event().wait()
    sys.exit(main(sys.argv[1:]))
