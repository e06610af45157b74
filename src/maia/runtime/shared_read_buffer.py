"""What does a connection that is silent cost in memory?

asyncio gives every TLS connection a buffer of 256 KiB to receive into, which
is nine tenths of what an idle connection holds. A selector loop fills that
buffer and hands its bytes to TLS in one step, before it looks at any other
connection, so the connections of one loop can share it. The attributes are
asyncio's own: where they are missing or the loop is of another kind, the
connection keeps its buffer, and nothing but memory is lost
(docs/decisions/shared-read-buffer.md).
"""

from __future__ import annotations

import asyncio
from asyncio import sslproto
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["share_read_buffer"]


def share_read_buffer(transport: asyncio.BaseTransport) -> bool:
    """Let a TLS connection receive into the buffer of its loop; say whether it does."""
    loop = asyncio.get_running_loop()
    protocol = getattr(transport, "_ssl_protocol", None)
    if not isinstance(loop, asyncio.SelectorEventLoop) or not isinstance(protocol, sslproto.SSLProtocol):
        return False
    own = getattr(protocol, "_ssl_buffer", None)
    if type(own) is not bytearray or not isinstance(getattr(protocol, "_ssl_buffer_view", None), memoryview):
        return False
    shared = _buffer_of(loop, len(own))
    # setattr: the type stubs know nothing of what is asyncio's own.
    setattr(protocol, "_ssl_buffer", shared)  # noqa: B010 - the same
    setattr(protocol, "_ssl_buffer_view", memoryview(shared))  # noqa: B010 - the same
    return True


_BUFFERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, bytearray]] = WeakKeyDictionary()
"""One for each loop: two loops may run in two threads, and then not one step after the other."""


def _buffer_of(loop: asyncio.AbstractEventLoop, size: int) -> bytearray:
    buffer = _BUFFERS.get(loop)
    if buffer is None or len(buffer) < size:
        buffer = _BUFFERS[loop] = bytearray(size)
    return buffer
