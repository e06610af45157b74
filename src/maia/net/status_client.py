"""How does a command on the same machine read a broker's status?"""

from __future__ import annotations

import http.client
import json
from typing import Final

from maia.net.addresses import host_and_port
from maia.net.status_endpoint import Door, NoStatus

__all__ = ["fetch_status"]

_TIMEOUT_S: Final = 30.0
_ANSWER_BYTES_MAX: Final = 64 << 20


def fetch_status(door: Door) -> dict[str, object]:
    """Ask at the door with its token; raise NoStatus if nobody answers properly."""
    host, port = host_and_port(door.address)
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/status", headers={"Authorization": f"Bearer {door.token}"})
        response = connection.getresponse()
        body = response.read(_ANSWER_BYTES_MAX)
        found = json.loads(body) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise NoStatus(f"no broker answers at `{door.address}`: {str(problem)[:100]}") from problem
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise NoStatus(
            f"the broker at `{door.address}` did not accept the token: it was started anew meanwhile"
        )
    return found
