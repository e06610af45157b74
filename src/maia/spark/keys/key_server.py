"""From where do a Spark job's workers fetch the keys of a governed table?

From the driver, which lays them out on a desk and hands every table a pass.
The pass is pickled into the job. It holds an address and a token that says
"I belong to this job", and no key. A worker makes an encryption key for each
question, and the answer is sealed to it (HPKE): a recording of the network
opens nothing, not even with the token later. A holder of
the token while the driver runs, and reaches the driver, is the job; that is
the trust a Spark job needs anyway (docs/decisions/governed-tables.md).

    with job_desk() as desk:
        table = governed(spark, log, Access(reader, versions, Keys(source, desk, signers)))
        desk.end_all()          the next task of any of its tables is refused
        desk.end(one_pass)      or that of one table (`governed/right_watch.py` does it)
"""

from __future__ import annotations

import hmac
import os
import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from traceback import extract_tb
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from maia.credentials.keys import same_secret
from maia.errors import MaiaError, ProtocolViolation, Refusal, Unavailable
from maia.sealing.keys.delivery import SessionKey, seal_to
from maia.spark.keys.content_keys import (
    EPOCHS_PER_REQUEST,
    HeldEpoch,
    KeySource,
    Wanted,
    read_handout,
    write_handout,
)

GRANTS_MAX: Final = 4096
WORKERS_MAX: Final = 256
"""Connections whose question has not come; beyond, the oldest of the address that has most makes room."""
TIMEOUT_S: Final = 20.0
PATIENCE_S: Final = 300.0
"""For how long a worker asks a driver that is there and does not answer."""
QUESTION_S: Final = 5.0
"""How long a connection may take to say who it is: a worker asks as soon as it is connected."""
_PAUSES_S: Final = (0.1, 0.3, 1.0, 3.0)
"""Between the attempts of a worker."""
ASK_BYTES_MAX: Final = 1 << 17
_TELL_BYTES_MAX: Final = 1 << 28
_READ_BYTES: Final = 1 << 16
_MAC_BYTES: Final = 32
_ASKED: Final = b"maia/1/desk-ask\x00"
_TOLD: Final = b"maia/1/desk-tell\x00"
_INFO: Final = b"maia/1/key-handout\x00"


class _Ask(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    grant: Annotated[bytes, Meta(min_length=16, max_length=16)]
    key: Annotated[bytes, Meta(min_length=32, max_length=32)]
    epochs: Annotated[list[Annotated[int, Meta(ge=0, le=2**63 - 1)]], Meta(max_length=EPOCHS_PER_REQUEST)]
    refused: Annotated[
        dict[Annotated[str, Meta(max_length=64)], Annotated[int, Meta(ge=1, le=2**53)]], Meta(max_length=256)
    ]
    call: Annotated[bytes, Meta(max_length=1 << 16)] = b""


class _Answer(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    is_open: bool
    sealed: bytes
    refusal: tuple[str, str] | None = None
    """Code and sentence, where the driver said no to a call."""


_ENCODER: Final = msgspec.msgpack.Encoder()
_ASK: Final = msgspec.msgpack.Decoder(_Ask)
_TELL: Final = msgspec.msgpack.Decoder(_Answer)


# ------------------------------------------------------------ the worker's side


@dataclass(frozen=True, slots=True)
class DeskPass:
    """Where a job's workers ask, and how they show that they belong to the job."""

    host: str
    port: int
    grant: bytes = field(repr=False)
    token: bytes = field(repr=False)

    def keys_of(self, epochs: Collection[int]) -> dict[int, HeldEpoch]:
        """Ask the driver; raise `PIPELINE-GRANT-ENDED` if it has taken the grant back."""
        return read_handout(self._asked(epochs, {}))

    def report(self, refused: Mapping[str, int]) -> None:
        """Tell the driver how many frames were left out, by code; a task that runs again tells it again."""
        self._asked((), refused)

    def call(self, data: bytes) -> bytes:
        """Ask what was laid out to answer calls (`JobDesk.open_call`); raise what it refuses."""
        return self._asked((), {}, data)

    def _asked(self, epochs: Collection[int], refused: Mapping[str, int], call: bytes = b"") -> bytes:
        session = SessionKey(os.urandom)
        asked = _ENCODER.encode(_Ask(self.grant, session.public, sorted(epochs), dict(refused), call))
        told = self._answer(_mac(self.token, _ASKED, asked) + asked)
        mac, body = told[:_MAC_BYTES], told[_MAC_BYTES:]
        if not same_secret(mac, _mac(self.token, _TOLD, sha256(asked).digest() + body)):
            raise ProtocolViolation(
                "PROTOCOL-JOB-DESK", "the answer to a worker was not made by the driver of its job"
            )
        answer = _TELL.decode(body)
        if not answer.is_open:
            raise Refusal(
                "PIPELINE-GRANT-ENDED", "the right behind this table was taken back; ask for the table again"
            )
        if answer.refusal is not None:
            code, sentence = answer.refusal
            raise Refusal(code, sentence)
        return session.open(answer.sealed, _INFO + sha256(asked).digest())

    def _answer(self, question: bytes) -> bytes:
        problem: OSError | None = None
        pauses_s, gives_up_at = iter((0.0, *_PAUSES_S)), time.monotonic() + PATIENCE_S
        while (pause_s := next(pauses_s, None)) is not None:
            time.sleep(pause_s)
            try:
                with socket.create_connection((self.host, self.port), timeout=TIMEOUT_S) as connection:
                    _send(connection, question)
                    return _receive(connection, _TELL_BYTES_MAX)
            except TimeoutError as failed:
                # The driver is there and busy, or paused: a table outlives that.
                problem = failed
                pauses_s = iter((0.0,) if time.monotonic() < gives_up_at else ())
            except OSError as failed:
                problem = failed
        raise Unavailable(
            "UNAVAILABLE-JOB-DESK", f"the driver of this job does not answer at `{self.host}:{self.port}`"
        ) from problem


# ------------------------------------------------------------ the driver's side


@dataclass(slots=True)
class _Grant:
    token: bytes = field(repr=False)
    answer: Callable[[_Ask], bytes] | None = field(repr=False)
    """Makes what is handed out; None once the grant has ended."""


_OPEN: Final[set[int]] = set()


def desks_open() -> int:
    """Return how many desks this process has open, each with keys of its tables in memory."""
    return len(_OPEN)


class JobDesk:
    """The grants of one driver. Made by `job_desk`, which also lets it go."""

    __slots__ = ("_grants", "_host", "_lock", "_server", "_servers", "look", "refused")

    def __init__(self, host: str, bind: str | None = None) -> None:
        """Listen on a free port, at `bind` if that is not `host`; nothing is answered before a grant."""
        self._grants: dict[bytes, _Grant] = {}
        self._lock = threading.Lock()
        self.refused: Counter[str] = Counter()
        """Frames that workers left out because something about them does not hold, by code."""
        self.look: Callable[[], None] = lambda: None
        """Called before every answer, to end the grants of rights that are over."""
        self._servers: dict[str, _DeskServer] = {}
        self._server = self._serving(host, bind or host)
        self._host = host
        _OPEN.add(id(self))

    def listen(self, host: str, bind: str, one: DeskPass) -> DeskPass:
        """Answer at another address, too; return a pass for workers that reach this machine as `host`."""
        port = int(self._serving(host, bind).server_address[1])
        return replace(one, host=host, port=port)

    def _serving(self, host: str, bind: str) -> _DeskServer:
        if host not in self._servers:
            try:
                server = _DeskServer((bind, 0), self)
            except OSError as problem:
                raise Unavailable(
                    "UNAVAILABLE-JOB-DESK", f"a desk cannot be opened at `{bind}`: {problem.strerror}"
                ) from problem
            threading.Thread(target=server.serve_forever, name="maia-job-desk", daemon=True).start()
            self._servers[host] = server
        return self._servers[host]

    def open(self, source: KeySource | None, wanted: Wanted) -> DeskPass:
        """Begin a grant: workers that show its pass get what `source` holds of `wanted`."""
        if source is None:
            return self._open(lambda _ask: b"\x90")
        return self._open(lambda ask: write_handout(source, ask.epochs, wanted))

    def open_call(self, answer: Callable[[bytes], bytes]) -> DeskPass:
        """Begin a grant: what workers that show its pass ask is answered; what is raised is refused."""
        return self._open(lambda ask: answer(ask.call))

    def _open(self, answer: Callable[[_Ask], bytes]) -> DeskPass:
        grant, token = os.urandom(16), os.urandom(32)
        with self._lock:
            if len(self._grants) >= GRANTS_MAX:
                raise Unavailable(
                    "UNAVAILABLE-JOB-DESK-FULL", f"this driver has laid out {GRANTS_MAX} grants"
                )
            self._grants[grant] = _Grant(token, answer)
        return DeskPass(self._host, int(self._server.server_address[1]), grant, token)

    def is_open(self, one: DeskPass) -> bool:
        """Return whether a grant of this desk goes on, at this moment."""
        self.look()
        with self._lock:
            grant = self._grants.get(one.grant)
        return grant is not None and grant.answer is not None

    def end(self, one: DeskPass) -> None:
        """Take back the grant of one pass of this desk, and no other's."""
        with self._lock:
            grant = self._grants.get(one.grant)
            if grant is not None:
                grant.answer = None

    def end_all(self) -> None:
        """Take every grant back: the next task of each table is refused, streams included."""
        with self._lock:
            for grant in self._grants.values():
                grant.answer = None

    def close(self) -> None:
        """Answer no worker any more, and drop every key."""
        _OPEN.discard(id(self))
        self.end_all()
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def answer(self, question: bytes) -> bytes:
        """Answer one worker; raise for a peer that belongs to no job of this driver."""
        mac, asked = question[:_MAC_BYTES], question[_MAC_BYTES:]
        try:
            ask = _ASK.decode(asked)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ProtocolViolation("PROTOCOL-JOB-DESK", "a question to the desk cannot be read") from None
        with self._lock:
            grant = self._grants.get(ask.grant)
        if grant is None or not same_secret(mac, _mac(grant.token, _ASKED, asked)):
            raise ProtocolViolation(
                "PROTOCOL-JOB-DESK", "a question to the desk was not asked by one of its jobs"
            )
        with self._lock:
            self.refused.update(ask.refused)
        # for workers only: a stranger costs no more than a MAC (A116)
        body = _ENCODER.encode(_told(self.look, grant, ask, asked))
        return _mac(grant.token, _TOLD, sha256(asked).digest() + body) + body

    def __repr__(self) -> str:
        return f"JobDesk(grants={len(self._grants)})"


def _told(look: Callable[[], None], grant: _Grant, ask: _Ask, asked: bytes) -> _Answer:
    try:
        look()
        answer = grant.answer
        if answer is None:
            return _Answer(is_open=False, sealed=b"")
        handout = answer(ask)
    except MaiaError as problem:
        return _Answer(is_open=True, sealed=b"", refusal=(problem.code, problem.message))
    except Exception as problem:  # noqa: BLE001 - the outermost loop of the desk: the worker hears of it
        why = f"the driver of this job cannot answer: {_reason(problem)}"
        return _Answer(is_open=True, sealed=b"", refusal=("UNAVAILABLE-JOB-DESK", why))
    info = _INFO + sha256(asked).digest()
    return _Answer(is_open=True, sealed=seal_to(ask.key, handout, info, os.urandom))


def _reason(problem: Exception) -> str:
    """Return what went wrong, and where; what the system says of a file or a socket, and no value of ours."""
    if isinstance(problem, OSError):
        return str(problem)
    (*_, last) = extract_tb(problem.__traceback__)
    return f"{type(problem).__name__} at {Path(last.filename).name}:{last.lineno}"


@contextmanager
def job_desk(host: str = "127.0.0.1") -> Iterator[JobDesk]:
    """Open a desk for the jobs of this driver; a table on a cluster lets it listen where workers reach it."""
    desk = JobDesk(host)
    try:
        yield desk
    finally:
        desk.close()


class _DeskServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = WORKERS_MAX

    def __init__(self, address: tuple[str, int], desk: JobDesk) -> None:
        self.desk = desk
        self._silent: dict[object, str] = {}
        """Connections whose question has not come, the oldest first, and from where they are."""
        self._lock = threading.Lock()
        super().__init__(address, _DeskQuestion)

    def process_request(self, request: Any, address: Any) -> None:
        """Answer in a thread of its own; strangers that say nothing make room for a worker (A88)."""
        with self._lock:
            if len(self._silent) >= WORKERS_MAX:
                ((busiest, _),) = Counter(self._silent.values()).most_common(1)
                oldest: Any = next(one for one, host in self._silent.items() if host == busiest)
                del self._silent[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._silent[request] = str(address[0])
        super().process_request(request, address)

    def has_asked(self, request: object) -> None:
        """Take note that the question of a connection has come, or that it ended without one."""
        with self._lock:
            self._silent.pop(request, None)

    def handle_error(self, request: object, address: object) -> None:
        """Log nothing: a bad request gets no answer, and a key must not end in a traceback."""


class _DeskQuestion(socketserver.BaseRequestHandler):
    server: _DeskServer

    def handle(self) -> None:
        """Answer one question, or close the connection."""
        try:
            question = _receive(self.request, ASK_BYTES_MAX, ends_at=time.monotonic() + QUESTION_S)
            answer = self.server.desk.answer(question)
            self.server.has_asked(self.request)
            self.request.settimeout(TIMEOUT_S)
            _send(self.request, answer)
        except (MaiaError, OSError):
            return  # the worker reports that the driver does not answer
        finally:
            self.server.has_asked(self.request)


# ------------------------------------------------------------ bytes


def _mac(token: bytes, purpose: bytes, data: bytes) -> bytes:
    return hmac.digest(token, purpose + data, "sha256")


def _send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(len(data).to_bytes(4, "big") + data)


def _receive(connection: socket.socket, bytes_max: int, *, ends_at: float | None = None) -> bytes:
    length = int.from_bytes(_exactly(connection, 4, ends_at), "big")
    if not _MAC_BYTES < length <= bytes_max:
        raise OSError("the length of a message is out of bounds")
    return _exactly(connection, length, ends_at)


def _exactly(connection: socket.socket, size: int, ends_at: float | None) -> bytes:
    """Read so many bytes, in time however slowly they come; nothing is reserved for what is announced."""
    received = bytearray()
    while len(received) < size:
        if ends_at is not None:
            connection.settimeout(max(0.001, ends_at - time.monotonic()))
        some = connection.recv(min(size - len(received), _READ_BYTES))
        if not some or (ends_at is not None and time.monotonic() > ends_at):
            raise OSError("the connection ended early")
        received += some
    return bytes(received)
