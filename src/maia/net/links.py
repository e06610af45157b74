"""How do messages cross one connection, within limits?

A node's runner holds one `SocketLink` for each connection, whether TLS or the records
of a statement link seal its bytes. A link cuts the bytes
that arrive into messages and hands them on at once, so that there is no inbox
to fill: a node that is busy reads later, and TCP slows the sender down. What waits
to be written is counted in bytes; a peer that does not read fast enough is
closed (SLOW-LINK) and never slows other peers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

from maia.credentials import Principal
from maia.credentials.identity import VerifiedIdentity
from maia.errors import MaiaError, Unavailable
from maia.net.tls_stream import SocketStream
from maia.wire.codec import is_welcome
from maia.wire.effects import LinkId
from maia.wire.framing import Splitter, length_prefix

_CHUNK: Final = 256 << 10
"""How many bytes are handed to TLS at a time."""


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """How much, how many and how long, for the connections of one node."""

    links: int = 4096
    """Connections at one time that have ended the handshake of TLS."""
    half_open: int = 256
    """Connections at one time that have not; the oldest of the busiest address makes room for a new one."""
    outbox_bytes: int = 32 << 20
    """What may wait to be written to one peer; one message that fits alone may always wait."""
    handshake_s: float = 10.0
    dial_s: float = 10.0
    message_s: float = 30.0
    """How long a message may take from its first byte to its last."""
    close_s: float = 5.0
    """How long a closing link may take to write what waits."""


class LinkOwner(Protocol):
    """The owner of a link, which is called when something happens on it."""

    def link_opened(self, link: SocketLink) -> None:
        """Take note that the peer has proved its key."""

    def link_received(self, link: SocketLink, messages: list[bytes]) -> None:
        """Take whole messages, in order."""

    def link_closed(self, link: SocketLink, problem: Exception | None) -> None:
        """Take note that the connection is gone; `problem` says why, if this side found a reason."""

    def link_drained(self, link: SocketLink) -> None:
        """Take note that nothing waits to be written any more."""


class SocketLink:
    """One connection: framing, the outbox, and the limits of both."""

    def __init__(self, owner: LinkOwner, number: LinkId, limits: LinkLimits, dialled: str | None) -> None:
        """Begin with the small size limit that holds until a welcome."""
        self.id = number
        self.dialled = dialled
        self.peer: Principal | None = None
        self.remote: str | None = None
        self._owner = owner
        self._limits = limits
        self._splitter = Splitter()
        self._outbox: list[bytes] = []  # idle, a deque is as large as all the rest of a link
        self._waiting = 0
        self.received_bytes = self.sent_bytes = 0
        self._stream: SocketStream | None = None
        self._is_paused = False
        self._is_closing = False
        self._has_sent = False
        self._is_welcomed = False
        self._problem: Exception | None = None
        self._message_began: float | None = None
        self._closing_ends: float | None = None

    # -------------------------------------------------------- called by the stream

    def open(self, stream: SocketStream) -> None:
        """Read who proved its key; a peer whose leaf is odd is never announced."""
        self._stream = stream
        stream.start(self)
        try:
            self.peer, self.remote = stream.peer(), stream.remote
        except MaiaError as problem:
            self.fail(problem)
            return
        self._owner.link_opened(self)

    def data_received(self, data: memoryview) -> None:
        """Hand on every message that is whole now."""
        if self._is_closing:
            return
        self.received_bytes += len(data)
        try:
            messages = self._splitter.feed(data)
        except MaiaError as problem:
            self.fail(problem)
            return
        if not messages:
            if not self._splitter.held:
                self._message_began = None
            return
        self._message_began = None
        # Only whoever dialled, and has said hello, waits for a welcome; otherwise it changes nothing.
        waits_for_welcome = not self._is_welcomed and self.dialled is not None and self._has_sent
        if waits_for_welcome and any(map(is_welcome, messages)):
            self._is_welcomed = True
            messages += self._splitter.raise_limit()
        self._owner.link_received(self, messages)

    def connection_lost(self, problem: Exception | None) -> None:
        """Forget what waits, and say so."""
        self._is_closing = True
        self._outbox.clear()
        self._waiting = 0
        problem = self._problem or problem
        # Stream, problem and link would hold each other, and what a stranger has sent, until a whole walk.
        self._stream = self._problem = None
        self._splitter = Splitter()
        self._owner.link_closed(self, problem)

    def pause_writing(self) -> None:
        """Keep messages here until the peer has read."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Write what waited."""
        self._is_paused = False
        self.flush()
        if not self._outbox and not self._is_paused:
            self._owner.link_drained(self)

    # -------------------------------------------------------- what the runner asks for

    @property
    def waiting(self) -> int:
        """Return how many bytes wait for the stream to take them."""
        return self._waiting

    @property
    def is_closing(self) -> bool:
        """Return whether nothing more can be sent."""
        return self._is_closing

    @property
    def is_hanging_up(self) -> bool:
        """Return whether this side has said its last word, and waits for the peer to take it and go."""
        return self._closing_ends is not None

    @property
    def identity(self) -> VerifiedIdentity | None:
        """Return the statement by which the peer opened a statement link; None on a TLS link."""
        return None if self._stream is None else self._stream.identity

    def send(self, message: bytes) -> None:
        """Put one message behind those that wait; `flush` writes them."""
        if self._is_closing:
            return
        if self._waiting and self._waiting + len(message) > self._limits.outbox_bytes:
            self.flush()
        if self._waiting and self._waiting + len(message) > self._limits.outbox_bytes:
            self.fail(
                Unavailable("SLOW-LINK", f"{self._waiting} bytes wait for a peer that does not read them")
            )
            return
        self._outbox.append(length_prefix(message))
        self._outbox.append(message)
        self._waiting += len(message)
        self.sent_bytes += len(message)
        if self._is_welcomed:
            return  # nearly always
        self._has_sent = True
        if self.dialled is None and is_welcome(message):
            self._is_welcomed = True
            self._allow_longer_messages()

    def flush(self) -> None:
        """Write as much as the stream takes."""
        stream, outbox = self._stream, self._outbox
        if stream is None:
            return
        while outbox and not self._is_paused:
            if self._waiting > _CHUNK:
                stream.write(self._next_chunk())
                continue
            whole = b"".join(outbox)
            outbox.clear()
            self._waiting = 0
            stream.write(whole)
        if self._closing_ends is not None and not outbox:
            stream.close()

    def close(self, now: float) -> None:
        """Write what waits, then close; after `close_s` close anyhow. `now` is the loop's clock."""
        if self._is_closing:
            return
        self._is_closing = True
        self._closing_ends = now + self._limits.close_s
        self.flush()

    def fail(self, problem: Exception) -> None:
        """Close at once, whatever waits."""
        self._problem = self._problem or problem
        self._is_closing, self._closing_ends = True, None
        self._outbox.clear()
        self._waiting = 0
        if self._stream is not None:
            self._stream.abort()

    def read_on(self, wanted: bool) -> None:
        """Read on, or leave what arrives to TCP until there is room for it again."""
        if self._stream is None or self._is_closing:
            return
        if wanted:
            self._stream.resume_reading()
        else:
            self._stream.pause_reading()

    def check_deadlines(self, now: float) -> None:
        """Close a link that holds back the rest of a message, or does not take its last bytes."""
        if self._closing_ends is not None and now >= self._closing_ends:
            self._end_closing()
        elif self._splitter.held and self._message_began is not None:
            if now - self._message_began >= self._limits.message_s:
                self.fail(
                    Unavailable(
                        "UNAVAILABLE-MESSAGE-TIME", "the peer began a message and did not end it in time"
                    )
                )
        elif self._splitter.held:
            self._message_began = now

    # -------------------------------------------------------- inside

    def _end_closing(self) -> None:
        if self._outbox or (self._stream is not None and self._stream.waiting):
            self.fail(Unavailable("SLOW-LINK", "the peer did not take its last messages in time"))
        elif self._stream is not None:
            self._stream.abort()  # it has everything, and does not hang up

    def _allow_longer_messages(self) -> None:
        late = self._splitter.raise_limit()
        if late:  # the peer did not wait for its welcome
            asyncio.get_running_loop().call_soon(self._owner.link_received, self, late)

    def _next_chunk(self) -> bytes:
        """Take some of the messages that wait, as one piece."""
        taken = size = 0
        while taken < len(self._outbox) and size < _CHUNK:
            taken += 2
            size += len(self._outbox[taken - 1])
        chunk = b"".join(self._outbox[:taken])
        del self._outbox[:taken]
        self._waiting -= size
        return chunk
