"""Where does a node listen or dial? A text such as `127.0.0.1:7400` or `[::1]:7400`."""

from __future__ import annotations

import errno
import socket
from typing import Final

from maia.errors import BadInput, Unavailable

_ADDRESS_MAX: Final = 256
_BACKLOG: Final = 1024
_UNSENT_BYTES: Final = 64 << 10


class BadAddress(BadInput):
    """A text is not an address with a port."""

    code = "INPUT-ADDRESS"


def host_and_port(address: str) -> tuple[str, int]:
    """Return the two parts of an address; refuse what is none."""
    host, colon, digits = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    is_port = digits.isascii() and digits.isdigit() and len(digits) <= 5 and int(digits) < 1 << 16
    if not colon or not host or not is_port or len(address) > _ADDRESS_MAX or not host.isascii():
        shown = address[:64].encode("unicode_escape").decode()
        raise BadAddress(f"`{shown}` is not an address such as `127.0.0.1:7400`")
    return host, int(digits)


def bind(address: str) -> tuple[socket.socket, str]:
    """Listen at an address and return where that is in the end; port 0 stands for any free port."""
    host, port = host_and_port(address)
    try:
        family = _family(host)
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as problem:
        taken = "another process listens there" if problem.errno == errno.EADDRINUSE else problem.strerror
        raise Unavailable("UNAVAILABLE-ADDRESS", f"cannot listen at `{address}`: {taken}") from problem
    listening.setblocking(False)
    bound = listening.getsockname()[1]
    return listening, f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"


def refuse_taken(address: str) -> None:
    """Refuse an address of this machine at which another process listens; of others, nothing is known."""
    try:
        listening, _ = bind(address)
    except Unavailable as problem:
        if isinstance(problem.__cause__, OSError) and problem.__cause__.errno == errno.EADDRINUSE:
            raise
    else:
        listening.close()


def _family(host: str) -> socket.AddressFamily:
    """Return the family of a numeric address; of a name, that of the first address that it has."""
    if ":" in host:
        return socket.AF_INET6
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return next((one[0] for one in found if one[0] == socket.AF_INET), found[0][0])


def keep_little_unsent(listening: socket.socket) -> None:
    """Have the kernel take little at a time that it cannot send; every connection inherits it.

    It would take four megabytes for a reader that does not read: encoded, encrypted and in vain (A116).
    """
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
