"""Which port may a test name before a server listens there? One that no other process is given meanwhile.

A server that can listens on port 0 and says which one it was. A broker that is
killed and comes back at its address cannot: in between, the system may give
its port to any process, even to the client that dials it. So these lie below the
ports that the system gives out. Other tests draw from the same ones: a process that
has drawn a port holds its number for UDP, where no server listens, until it ends.
"""

from __future__ import annotations

import random
import socket
from contextlib import closing
from typing import Final

FIRST: Final = 15_000
BEHIND_LAST: Final = 32_000
_ATTEMPTS: Final = 1_000
_held: list[socket.socket] = []


def free_ports(how_many: int) -> list[int]:
    """Return ports of loopback on which no server listens, and which no other test is given."""
    found: list[int] = []
    # Drawn from the system: lanes whose tests are seeded alike must not find the same ports.
    chance = random.SystemRandom()
    for port in (chance.randrange(FIRST, BEHIND_LAST) for _ in range(_ATTEMPTS)):
        if len(found) == how_many:
            return found
        if _is_ours(port):
            found.append(port)
    raise AssertionError("no port is free")


def free_port() -> int:
    """Return one such port."""
    return free_ports(1)[0]


def _is_ours(port: int) -> bool:
    """Take the number of a port, unless another process has it, or listens there."""
    taking = socket.socket(type=socket.SOCK_DGRAM)
    try:
        taking.bind(("127.0.0.1", port))
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        taking.close()
        return False
    _held.append(taking)
    return True
